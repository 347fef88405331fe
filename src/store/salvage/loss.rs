//! What is lost, stretch by stretch, and what stands beside it.

use std::ops::Range;

use super::super::lenient::Lenient;
use super::super::rows::Numbers;
use super::run::{At, Run};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::file::header::FileType;
use crate::file::log_row::LogRow;
use crate::file::rescue::{Remedy, Rescued, Stretch, Trust, for_each_row};
use crate::msgpack::{look, print};

/// What is lost is described stretch by stretch up to so many; further stretches are counted.
const LOSSES_MAX: usize = 1000;

/// A stretch of a file that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// File, block and byte.
    pub place: Place,
    /// The stretch.
    pub bytes: Range<u64>,
    /// What is wrong, a sentence with its place.
    pub reason: String,
    /// How it was put right; then nothing is lost.
    pub repaired: Option<String>,
    /// Rows that could be read of it.
    pub read_rows: u64,
    /// Of a snapshot: the numbers of its rows that are missing between what stands before and behind it.
    pub row_numbers: Option<Range<u64>>,
    /// Of a log: the replica, and its LSNs that are missing between what stands before and behind it.
    pub lsns: Option<(u32, Range<u64>)>,
    /// Ids of the spaces whose rows stand before and behind it.
    pub spaces: (Option<u32>, Option<u32>),
    /// Primary keys, as JSON, of the tuples that stand before and behind it.
    pub keys: (Option<String>, Option<String>),
}

impl Loss {
    /// Whether rows may be missing: nothing is, where what stands before and behind follow on one another.
    pub fn is_loss(&self) -> bool {
        let none = |range: &Range<u64>| range.is_empty();
        match (&self.row_numbers, &self.lsns) {
            _ if self.repaired.is_some() => false,
            (Some(numbers), _) => !none(numbers),
            (_, Some((_, lsns))) => !none(lsns),
            _ => true,
        }
    }

    /// What is missing, as far as it is known.
    pub fn cost(&self) -> Option<String> {
        if !self.is_loss() {
            return None;
        }
        let range = |range: &Range<u64>| match range.end - range.start {
            1 => format!("{}", range.start),
            _ => format!("{} to {}", range.start, range.end - 1),
        };
        let what = match (&self.row_numbers, &self.lsns) {
            (Some(numbers), _) => format!("rows {} ({})", range(numbers), numbers.end - numbers.start),
            (None, Some((replica, lsns))) => format!("LSNs {} of replica {replica}", range(lsns)),
            (None, None) => "rows that nobody can count".to_owned(),
        };
        let spaces = match self.spaces {
            (Some(before), Some(behind)) if before == behind => format!(" of space {before}"),
            (Some(before), Some(behind)) => format!(" of spaces {before} to {behind}"),
            (Some(before), None) => format!(" of space {before} or behind it"),
            (None, Some(behind)) => format!(" of space {behind} or before it"),
            (None, None) => String::new(),
        };
        let keys = match &self.keys {
            (Some(before), Some(behind)) => format!(", keys between {before} and {behind}"),
            (Some(before), None) => format!(", keys behind {before}"),
            (None, Some(behind)) => format!(", keys before {behind}"),
            (None, None) => String::new(),
        };
        Some(format!("{what}{spaces}{keys}"))
    }

    pub(super) fn new(bytes: Range<u64>, reason: String) -> Self {
        Self {
            place: Place::default(),
            bytes,
            reason,
            repaired: None,
            read_rows: 0,
            row_numbers: None,
            lsns: None,
            spaces: (None, None),
            keys: (None, None),
        }
    }
}

impl Run<'_> {
    /// LSNs that a log goes over, unless a damage tells of them.
    pub(super) fn tell_gap(&mut self, rescued: &Rescued, at: At, replica: u32, missing: Range<u64>) {
        let is_told = |loss: &Loss| {
            let told = loss.lsns.as_ref().filter(|(id, _)| *id == replica);
            told.is_some_and(|(_, told)| told.start <= missing.start && told.end >= missing.end)
        };
        if missing.is_empty() || self.report.losses.iter().any(is_told) {
            return;
        }
        let error = Error::new(ErrorKind::Row, "rows are missing before this one")
            .expected(format_args!("LSN {} of replica {replica}", missing.start))
            .found(missing.end)
            .row(at.row)
            .block(at.block, at.byte);
        let error = rescued.file.place(error);
        let mut loss = Loss::new(at.byte..at.byte, error.to_string());
        (loss.place, loss.lsns) = (error.place().clone(), Some((replica, missing)));
        self.lose(loss);
    }

    pub(super) fn lose(&mut self, loss: Loss) {
        if self.report.losses.len() < LOSSES_MAX {
            self.report.losses.push(loss);
        } else {
            self.report.more_losses += u64::from(loss.repaired.is_none());
        }
    }

    /// What is wrong with a file, stretch by stretch.
    pub(super) fn tell(&mut self, lenient: &Lenient<'_, At>, rescued: &Rescued) -> Result<()> {
        if let Some(error) = &rescued.header_fault {
            self.report.notices.push(format!("{error}; what its other lines say is taken"));
        }
        for damage in &rescued.damages {
            let mut loss = Loss::new(damage.bytes.clone(), damage.error.to_string());
            loss.place = damage.error.place().clone();
            if let Remedy::Repaired(how) = &damage.remedy {
                loss.repaired = Some(how.clone());
            } else if self.report.losses.len() < LOSSES_MAX {
                let (payload, is_taken) = match &damage.remedy {
                    Remedy::Rows(trust) => {
                        let stretch = Stretch::Damage(damage, *trust);
                        let (payload, _) = rescued.payload(&stretch, &mut self.unpacker)?;
                        (payload, self.unwanted(*trust).is_none())
                    }
                    _ => (Vec::new(), false),
                };
                self.describe(lenient, rescued, (&payload, is_taken), &mut loss)?;
            }
            self.lose(loss);
        }
        Ok(())
    }

    /// Rows of a snapshot that are missing by their numbers, though no damage shows where they were.
    pub(super) fn tell_missing(&mut self, rescued: &Rescued, mut blocks: Vec<Numbers>) {
        let path = &rescued.file.path;
        if blocks.iter().any(|block| !block.consecutive) {
            let text = format!(
                "{}: rows are not numbered from 0, so missing ones cannot be noticed",
                path.display()
            );
            return self.report.notices.push(text);
        }
        blocks.sort_unstable_by_key(|block| (block.first, block.block));
        let mut next = 0;
        for block in &blocks {
            let missing = next..block.first;
            let is_told = |loss: &Loss| {
                loss.row_numbers
                    .as_ref()
                    .is_some_and(|told| told.start <= missing.start && told.end >= missing.end)
            };
            if !missing.is_empty() && !self.report.losses.iter().any(is_told) {
                let error = Error::new(ErrorKind::RowNumber, "rows are missing before this block")
                    .expected(format_args!("row number {next}"))
                    .found(block.first)
                    .block(block.block, block.byte);
                let error = rescued.file.place(error);
                let mut loss = Loss::new(block.byte..block.byte, error.to_string());
                (loss.place, loss.row_numbers) = (error.place().clone(), Some(missing));
                self.lose(loss);
            }
            next = next.max(block.first.saturating_add(block.rows));
        }
    }

    /// A block under a right checksum that is not rows to its end.
    pub(super) fn tell_broken(
        &mut self,
        lenient: &Lenient<'_, At>,
        rescued: &Rescued,
        stretch: &Stretch<'_>,
        payload: &[u8],
        error: Option<Error>,
    ) -> Result<()> {
        let (Stretch::Block(head), Some(error)) = (stretch, error) else { return Ok(()) };
        let error = rescued.file.place(error.block(head.index, head.byte));
        let is_known = |loss: &Loss| loss.bytes.start == head.byte && loss.place.file == error.place().file;
        if self.report.losses.iter().any(is_known) {
            return Ok(());
        }
        let mut loss = Loss::new(head.byte..head.end(), error.to_string());
        loss.place = error.place().clone();
        let is_taken = self.unwanted(Trust::Cut).is_none();
        self.describe(lenient, rescued, (payload, is_taken), &mut loss)?;
        self.lose(loss);
        Ok(())
    }

    /// What stands before and behind a loss, of which `payload` could be read, and was taken or not.
    fn describe(
        &mut self,
        lenient: &Lenient<'_, At>,
        rescued: &Rescued,
        (payload, is_taken): (&[u8], bool),
        loss: &mut Loss,
    ) -> Result<()> {
        let (_, mut before) = edges(payload, lenient, &mut loss.read_rows)?;
        let heads = &rescued.heads;
        if before.is_none() || !is_taken {
            before = None;
            let at = heads.partition_point(|head| head.byte < loss.bytes.start);
            for head in heads[..at].iter().rev().take(1) {
                let (payload, _) = rescued.payload(&Stretch::Block(head), &mut self.unpacker)?;
                before = edges(&payload, lenient, &mut 0)?.1;
            }
        }
        let at = heads.partition_point(|head| head.byte < loss.bytes.end);
        let mut behind = None;
        for head in heads[at..].iter().take(1) {
            let (payload, _) = rescued.payload(&Stretch::Block(head), &mut self.unpacker)?;
            behind = edges(&payload, lenient, &mut 0)?.0;
        }
        let start = before.as_ref().map_or(0, |edge| edge.lsn.saturating_add(1));
        if let Some(edge) = &behind {
            let end = edge.lsn.max(start);
            match rescued.file.header.filetype {
                FileType::Snap => loss.row_numbers = Some(start..end),
                _ if before.as_ref().is_some_and(|before| before.replica == edge.replica) => {
                    loss.lsns = Some((edge.replica, start..end));
                }
                _ => {}
            }
        }
        let sides = [before, behind].map(|edge| edge.map_or((None, None), |edge| (edge.space_id, edge.key)));
        let [(space_before, key_before), (space_behind, key_behind)] = sides;
        (loss.spaces, loss.keys) = ((space_before, space_behind), (key_before, key_behind));
        Ok(())
    }
}

/// A row beside a loss.
struct Edge {
    lsn: u64,
    replica: u32,
    space_id: Option<u32>,
    /// The primary key, as JSON.
    key: Option<String>,
}

/// The first and the last row of a payload.
fn edges(payload: &[u8], lenient: &Lenient<'_, At>, rows: &mut u64) -> Result<(Option<Edge>, Option<Edge>)> {
    let (mut first, mut last) = (None, None);
    let mut end = 0..0;
    for_each_row(payload, |row, _| {
        *rows += 1;
        let start = row.bytes().as_ptr().addr() - payload.as_ptr().addr();
        end = start..start + row.bytes().len();
        if first.is_none() {
            first = Some(edge(row, lenient));
        }
        Ok(())
    })?;
    for_each_row(&payload[end], |row, _| {
        last = Some(edge(row, lenient));
        Ok(())
    })?;
    Ok((first, last))
}

fn edge(row: &LogRow<'_>, lenient: &Lenient<'_, At>) -> Edge {
    let key = || -> Option<String> {
        if let Some(key) = row.key() {
            let mut text = String::new();
            print::json(&mut text, key, 0).ok()?;
            return Some(text);
        }
        let tuple = row.tuple()?;
        let primary = lenient.catalog.schema.space_by_id(row.space_id()?)?.primary()?;
        let mut text = String::from("[");
        for part in primary.parts.iter().filter(|part| part.path.is_none()) {
            text.push_str(if text.len() > 1 { "," } else { "" });
            print::json(&mut text, tuple, look::element(tuple, 0, part.field)?).ok()?;
        }
        text.push(']');
        Some(text)
    };
    let replica = if row.is_local() { 0 } else { row.replica_id() };
    Edge { lsn: row.lsn(), replica, space_id: row.space_id(), key: key() }
}
