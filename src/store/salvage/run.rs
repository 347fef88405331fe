//! One run through all files: from the snapshot, or from nothing, to a store.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::Store;
use super::super::fresh::fresh_rows;
use super::super::lenient::{Lenient, TakenBack, Unapplied};
use super::super::options::Options;
use super::super::recover::{self, Origin, Recovered};
use super::super::replay::present;
use super::super::report::LoadReport;
use super::super::rows::{Numbers, check_numbers};
use super::super::snapshot::keeps_tuples_in_snapshots;
use super::super::synchro::Synchro;
use super::infer::Samples;
use super::logs::is_nearly;
use super::{Loss, SalvageOptions, SalvageReport, SavedSpace, Sources};
use crate::error::{ErrorKind, Result};
use crate::file::compress::Unpacker;
use crate::file::directory::NamedFile;
use crate::file::disk::Disk;
use crate::file::habits::version_of;
use crate::file::header::{FileType, TextHeader};
use crate::file::log_row::LogRow;
use crate::file::rescue::{Remedy, Rescued, Stretch, Trust, for_each_row, rescue, row_json};
use crate::file::row::kind;
use crate::file::source::ContainerFile;
use crate::file::vclock::Vclock;
use crate::limits::SYSTEM_SPACE_ID_END;
use crate::msgpack::{look, print, write};
use crate::parallel;
use crate::space::alter::{Catalog, Found};
use crate::space::catalog::{Notices, Schema};
use crate::space::definition::SpaceDef;
use crate::space::loader::LoadOptions;
use crate::space::system;
use crate::space::table::Table;
use crate::tuple::slab::Budget;
use crate::tuple::update::Rules;

/// What a block may unpack to unless a memory limit says otherwise: thousands of times what Tarantool writes.
const UNPACKED_BYTES_MAX: u64 = 512 << 20;

/// Where a row stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct At {
    /// Number of the file among those of the work.
    pub(super) file: usize,
    pub(super) block: u64,
    pub(super) byte: u64,
    pub(super) row: u64,
}

/// A row that can be read, and is not applied.
pub(super) struct Dropped<'a> {
    pub(super) row: &'a [u8],
    pub(super) at: At,
    pub(super) file: &'a Path,
    pub(super) why: &'a str,
}

impl Dropped<'_> {
    /// A line of the side file.
    pub(super) fn to_json(&self) -> String {
        let At { block, byte, row, .. } = self.at;
        let mut line = String::from("{\"reason\":");
        print::string(&mut line, self.why);
        line.push_str(",\"file\":");
        print::string(&mut line, &self.file.display().to_string());
        let _ = write!(line, ",\"block\":{block},\"byte\":{byte},\"row\":{row},\"content\":");
        line.push_str(row_json(self.row).as_deref().unwrap_or("null"));
        line.push_str(",\"hex\":\"");
        print::hex(&mut line, self.row);
        line.push_str("\"}\n");
        line
    }
}

/// What a run learns of the files that it should have known when it began.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    /// Spaces without a definition, and how many fields their primary keys are taken to have.
    pub(super) parts: HashMap<u32, usize>,
    /// Logs have rows that roll transactions back.
    pub(super) has_rollbacks: bool,
}

/// One run.
pub(super) struct Run<'a> {
    pub(super) disk: &'a dyn Disk,
    options: &'a SalvageOptions,
    pub(super) threads: usize,
    /// Takes rows that are not applied.
    drop: &'a mut dyn FnMut(&Dropped<'_>) -> Result<()>,
    /// Files that rows were read from.
    files: Vec<PathBuf>,
    budget: Arc<Budget>,
    pub(super) report: Parts,
    pub(super) known: Known,
    /// Something was learnt too late: it takes another run.
    pub(super) learns: bool,
    /// Rows of spaces that are not defined are not dropped, for definitions are still to be guessed.
    waits_for_guesses: bool,
    has_undefined: bool,
    /// Faults are wanted, not tuples: nothing is guessed, and no older snapshot is as good.
    pub(super) examines: bool,
    pub(super) unpacker: Unpacker,
    pub(super) unpacked_bytes_max: usize,
}

/// The report while it is being made.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) snapshot: Option<PathBuf>,
    pub(super) logs: Vec<PathBuf>,
    pub(super) skipped_files: Vec<(PathBuf, String)>,
    pub(super) losses: Vec<Loss>,
    pub(super) more_losses: u64,
    pub(super) rows: u64,
    pub(super) unchecked_rows: u64,
    pub(super) dropped_rows: u64,
    pub(super) foreign_rows: u64,
    pub(super) notices: Vec<String>,
}

/// What a run begins with.
struct Base {
    snapshot: Option<(usize, Rescued)>,
    loaded: Option<recover::Loaded>,
    instance: Option<String>,
    vclock: Vclock,
    rules: Rules,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        disk: &'a dyn Disk,
        options: &'a SalvageOptions,
        known: Known,
        drop: &'a mut dyn FnMut(&Dropped<'_>) -> Result<()>,
    ) -> Self {
        let limit = options.max_memory.unwrap_or(UNPACKED_BYTES_MAX);
        let unpacked_bytes_max = usize::try_from(limit).unwrap_or(usize::MAX);
        Self {
            disk,
            options,
            threads: parallel::threads_for(options.threads, usize::MAX),
            drop,
            files: Vec::new(),
            budget: Arc::new(Budget::new(options.max_memory)),
            report: Parts::default(),
            known,
            learns: false,
            waits_for_guesses: true,
            examines: false,
            has_undefined: false,
            unpacker: Unpacker::new(unpacked_bytes_max),
            unpacked_bytes_max,
        }
    }

    pub(super) fn rescue(&mut self, path: &Path, filetype: FileType) -> Result<(usize, Rescued)> {
        let rescued = rescue(self.disk, path, filetype, self.threads, self.unpacked_bytes_max)?;
        self.files.push(path.to_path_buf());
        Ok((self.files.len() - 1, rescued))
    }

    /// Saves all that there is.
    pub(super) fn run(&mut self, sources: &Sources) -> Result<Store> {
        self.report.notices.extend_from_slice(&sources.notices);
        let mut named = sources.snapshots.iter().rev();
        let (mut snapshot, mut loaded) = (None, None);
        for file in named.by_ref() {
            match self.rescue(&file.path, FileType::Snap) {
                Err(error) => self.skip(&file.path, error.to_string()),
                Ok((_, rescued)) if rescued.heads.is_empty() && file.signature > 0 => {
                    self.skip(&file.path, "nothing in it can be read".into());
                }
                Ok((number, rescued)) => {
                    loaded = self.load_at_once(&rescued)?;
                    snapshot = Some((number, rescued, file));
                    break;
                }
            }
        }
        let is_good = snapshot.as_ref().is_some_and(|(_, rescued, _)| {
            let is_repaired = |remedy: &Remedy| matches!(remedy, Remedy::Repaired(_));
            rescued.header_fault.is_none()
                && rescued.damages.iter().all(|damage| is_repaired(&damage.remedy))
                && loaded.as_ref().is_some_and(|loaded| are_all(&loaded.numbers))
        });
        if !is_good
            && !self.examines
            && let Some(wal_dir) = &sources.wal_dir
        {
            // An older one may lead to the same state.
            for file in named {
                if let Ok(store) = self.open(&file.path, wal_dir) {
                    let newer = sources.snapshots.iter().filter(|other| other.signature > file.signature);
                    let newer: Vec<String> = newer.map(|file| file.path.display().to_string()).collect();
                    self.report = Parts::default();
                    self.report.notices.push(format!(
                        "damaged: {}; {} and the logs after it are whole, and lead beyond",
                        newer.join(", "),
                        file.path.display()
                    ));
                    self.report.snapshot = Some(file.path.clone());
                    self.report.rows = store.report.total.rows;
                    return Ok(store);
                }
            }
        }
        // At once nobody says which rows do not fit.
        let base = self.base(snapshot, loaded, sources);
        self.from(base, sources)
    }

    /// Opens a snapshot with all logs after it.
    fn open(&self, path: &Path, wal_dir: &Path) -> Result<Store> {
        Store::open_with(path, &self.load_options().wal_dir(wal_dir))
    }

    fn load_options(&self) -> Options {
        let options = Options::new().threads(self.threads).fingerprint(false);
        match self.options.max_memory {
            Some(bytes) => options.max_memory(bytes),
            None => options,
        }
    }

    /// Loads the whole blocks of a snapshot as any snapshot is loaded, if that goes well.
    fn load_at_once(&self, rescued: &Rescued) -> Result<Option<recover::Loaded>> {
        let lost = rescued.damages.iter().find(|damage| !matches!(damage.remedy, Remedy::Repaired(_)));
        let first_lost = lost.map(|damage| damage.bytes.start);
        let (file, heads) = (&rescued.file, &rescued.heads);
        let limit = self.unpacked_bytes_max;
        match recover::load_rescued(file, heads, first_lost, limit, &self.load_options()) {
            Err(error) if error.kind() == ErrorKind::Io => Err(error),
            // Which rows, or blocks, it is that do not fit is found out one by one.
            Err(_) => Ok(None),
            Ok(loaded) => Ok(loaded),
        }
    }

    /// What is known of the state that the logs go on from.
    fn base(
        &mut self,
        snapshot: Option<(usize, Rescued, &NamedFile)>,
        loaded: Option<recover::Loaded>,
        sources: &Sources,
    ) -> Base {
        let log_header = |signature: Option<u64>| {
            let mut logs = sources.logs.iter();
            let log = logs.find(|log| signature.is_none_or(|signature| log.signature == signature))?;
            self.header(log)
        };
        let instance_of_logs = log_header(None).and_then(|header| header.instance);
        let Some((number, rescued, file)) = snapshot else {
            let vclock = log_header(None).map_or_else(Vclock::default, |header| header.vclock);
            let rules = Rules::of_version([0; 3]);
            return Base { snapshot: None, loaded: None, instance: instance_of_logs, vclock, rules };
        };
        let header = &rescued.file.header;
        let mut vclock = header.vclock;
        if is_misnamed(file, &vclock) {
            // The log that was begun with the snapshot begins at the same.
            let same = log_header(Some(file.signature)).map(|header| header.vclock);
            let same = same.filter(|vclock| !is_misnamed(file, vclock));
            vclock = same.unwrap_or_else(|| Vclock::default().with(1, file.signature));
            self.report.notices.push(format!(
                "{}: its vclock is not that of its name; it is taken to be {vclock}",
                file.path.display()
            ));
        }
        self.report.snapshot = Some(file.path.clone());
        let rules = Rules::of_version(version_of(header.writer.as_deref()));
        let instance = header.instance.clone().or(instance_of_logs);
        Base { snapshot: Some((number, rescued)), loaded, instance, vclock, rules }
    }

    /// Saves what there is from here on.
    fn from(&mut self, base: Base, sources: &Sources) -> Result<Store> {
        let Base { snapshot, loaded, instance, mut vclock, rules } = base;
        let is_loaded = |_: &SpaceDef| true;
        let options = LoadOptions { hints: true, nested: false, fingerprint: false };
        let (schema, tables, synchro, numbers) = match loaded {
            None => (Schema::default(), Vec::<Table>::new(), Synchro::default(), None),
            Some(loaded) => {
                self.budget = loaded.budget;
                self.report.rows += loaded.rows;
                (loaded.schema, loaded.tables, loaded.synchro, Some(loaded.numbers))
            }
        };
        let catalog = Catalog::new(schema, tables, &is_loaded, self.budget.clone(), options, 0);
        let mut lenient = Lenient::new(catalog, synchro);
        if let Some((file, rescued)) = &snapshot {
            let numbers = self.snapshot(&mut lenient, *file, rescued, &rules, numbers)?;
            self.tell(&lenient, rescued)?;
            self.tell_missing(rescued, numbers);
        }
        // The header's may have a wrong character: then it is that of a member.
        let instance = instance.map(|instance| member_like(&lenient, &instance).unwrap_or(instance));
        self.complete_system(&mut lenient, instance.as_deref(), &rules)?;
        if let Some((file, rescued)) = snapshot.as_ref().filter(|_| self.has_undefined && !self.examines) {
            let mut samples = Samples::default();
            self.samples(&mut lenient, rescued, &mut samples)?;
            self.guess(&mut lenient, &samples, &rules)?;
            let was_undefined = |row: &LogRow<'_>| row.space_id().is_some_and(|id| samples.has(id));
            for stretch in &rescued.stretches() {
                self.stretch(&mut lenient, (*file, rescued), stretch, &rules, &was_undefined)?;
            }
        }
        self.waits_for_guesses = false;
        if let Some((file, rescued)) = &snapshot {
            self.unlistable(&lenient, *file, rescued)?;
        }
        self.logs(&mut lenient, sources, instance.as_deref(), &mut vclock)?;
        lenient.finish()?;
        self.taken_back(&mut lenient)?;
        let Lenient { catalog, synchro, .. } = lenient;
        let (schema, tables) = catalog.finish(self.threads)?;
        let instance = instance.or_else(|| schema.replicas().next().map(|(_, uuid)| uuid.to_owned()));
        let path = self.report.snapshot.clone().unwrap_or_default();
        let report = LoadReport::new(&path, instance.clone(), &vclock, self.threads);
        let origin = Origin { instance, synchro, unconfirmed: 0 };
        let budget = self.budget.clone();
        Ok(Store::new(Recovered { schema, tables, report, origin, vclock, budget }, &self.load_options()))
    }

    /// What another run should begin with, if it takes one.
    pub(super) fn again(&self) -> Option<Known> {
        self.learns.then(|| self.known.clone())
    }

    pub(super) fn skip(&mut self, path: &Path, why: String) {
        self.report.skipped_files.push((path.to_path_buf(), why));
    }

    pub(super) fn header(&self, named: &NamedFile) -> Option<TextHeader> {
        let opened = ContainerFile::open_damaged(self.disk, &named.path, FileType::Xlog);
        opened.ok().map(|(file, _)| file.header)
    }

    /// Rows of a snapshot, each for itself: those about definitions first, then those of whole blocks, then the rest.
    fn snapshot(
        &mut self,
        lenient: &mut Lenient<'_, At>,
        file: usize,
        rescued: &Rescued,
        rules: &Rules,
        loaded: Option<Vec<Numbers>>,
    ) -> Result<Vec<Numbers>> {
        let stretches = rescued.stretches();
        let is_whole = |stretch: &&Stretch<'_>| stretch.trust() == Trust::Whole;
        let (whole, rest): (Vec<_>, Vec<_>) = stretches.iter().partition(is_whole);
        let (is_loaded_at_once, mut numbers) = (loaded.is_some(), loaded.unwrap_or_default());
        for system in [true, false] {
            let is_wanted = |row: &LogRow<'_>| is_system(row) == system;
            for &stretch in &whole {
                if !is_loaded_at_once {
                    let found = self.stretch(lenient, (file, rescued), stretch, rules, &is_wanted)?;
                    numbers.extend(found.filter(|_| system));
                }
            }
            for &stretch in &rest {
                self.stretch(lenient, (file, rescued), stretch, rules, &is_wanted)?;
            }
            lenient.end_transaction()?;
            self.taken_back(lenient)?;
        }
        Ok(numbers)
    }

    /// Rows of spaces whose tuples are in no index, since none that they have is built: nobody can list them.
    fn unlistable(&mut self, lenient: &Lenient<'_, At>, file: usize, rescued: &Rescued) -> Result<()> {
        let spaces = lenient.catalog.schema.spaces().iter();
        let spaces: HashMap<u32, String> = spaces
            .filter(|space| keeps_tuples_in_snapshots(space) && !lenient.catalog.has_whole(space.id))
            .filter_map(|space| {
                let why = space.absent.as_ref().or(space.primary()?.absent.as_ref())?;
                Some((space.id, format!("the space has no index that is built: {why}")))
            })
            .collect();
        if spaces.is_empty() {
            return Ok(());
        }
        for stretch in &rescued.stretches() {
            let (payload, _) = rescued.payload(stretch, &mut self.unpacker)?;
            let (block, byte) = (stretch.index(), stretch.byte());
            for_each_row(&payload, |row, number| {
                let why = row.space_id().and_then(|id| spaces.get(&id));
                let at = At { file, block, byte, row: number };
                why.map_or(Ok(()), |why| self.drop_row(row.bytes(), at, why))
            })?;
        }
        Ok(())
    }

    /// Some tuples of spaces that are not defined.
    pub(super) fn samples(
        &mut self,
        lenient: &mut Lenient<'_, At>,
        rescued: &Rescued,
        samples: &mut Samples,
    ) -> Result<()> {
        for stretch in &rescued.stretches() {
            let (payload, _) = rescued.payload(stretch, &mut self.unpacker)?;
            for_each_row(&payload, |row, _| {
                if let (Some(id), Some(tuple)) = (row.space_id(), row.tuple())
                    && matches!(row.kind(), kind::INSERT | kind::REPLACE)
                    && id >= SYSTEM_SPACE_ID_END
                    && matches!(lenient.catalog.find(id), Ok(Found::Undefined))
                {
                    samples.add(id, tuple, row.is_local());
                }
                if let (Some(system::SPACE_ID), Some(tuple)) = (row.space_id(), row.tuple())
                    && let Some(id) = look::id(tuple, 0)
                {
                    samples.define(id);
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Defines spaces by some of their tuples.
    pub(super) fn guess(
        &mut self,
        lenient: &mut Lenient<'_, At>,
        samples: &Samples,
        rules: &Rules,
    ) -> Result<()> {
        for (id, sample) in samples.iter() {
            let parts = *self.known.parts.entry(id).or_insert_with(|| sample.parts());
            let (space, index) = sample.rows(id, parts);
            add(lenient, system::SPACE_ID, &space, rules)?;
            add(lenient, system::INDEX_ID, &index, rules)?;
            self.report.notices.push(format!(
                "the definition of space {id} is lost; it is called space_{id} now, and its first {parts} fields are \
                 taken for its primary key"
            ));
        }
        lenient.end_transaction()
    }

    /// The rows of a stretch of a snapshot; gives their numbers.
    fn stretch(
        &mut self,
        lenient: &mut Lenient<'_, At>,
        (file, rescued): (usize, &Rescued),
        stretch: &Stretch<'_>,
        rules: &Rules,
        is_wanted: &dyn Fn(&LogRow<'_>) -> bool,
    ) -> Result<Option<Numbers>> {
        let (payload, fault) = rescued.payload(stretch, &mut self.unpacker)?;
        let fault = fault.map_or_else(|| for_each_row(&payload, |_, _| Ok(())), |fault| Ok(Some(fault)))?;
        // Where a block under a right checksum is not rows to its end, those before it may be no better.
        let trust = if fault.is_some() { stretch.trust().max(Trust::Cut) } else { stretch.trust() };
        let mut numbers = None::<Numbers>;
        for_each_row(&payload, |row, number| {
            let (block, byte) = (stretch.index(), stretch.byte());
            let numbers =
                numbers.get_or_insert(Numbers { block, byte, first: row.lsn(), rows: 0, consecutive: true });
            numbers.consecutive &= numbers.first.checked_add(numbers.rows) == Some(row.lsn());
            numbers.rows += 1;
            if !is_wanted(row) {
                return Ok(());
            }
            let at = At { file, block, byte, row: number };
            match row.kind() {
                kind::RAFT_PROMOTE => {
                    let whole = row.whole()?;
                    lenient.synchro.take(row.kind(), &whole.body.unwrap_or_default())
                }
                _ => self.row(lenient, row, at, trust, rules),
            }
        })?;
        self.tell_broken(lenient, rescued, stretch, &payload, fault)?;
        Ok(numbers)
    }

    pub(super) fn row(
        &mut self,
        lenient: &mut Lenient<'_, At>,
        row: &LogRow<'_>,
        at: At,
        trust: Trust,
        rules: &Rules,
    ) -> Result<()> {
        if let Some(why) = self.unwanted(trust) {
            // What is there already is not lost.
            return if self.is_there(lenient, row)? { Ok(()) } else { self.drop_row(row.bytes(), at, why) };
        }
        if trust != Trust::Whole && defines_unknown(row) {
            return self.drop_row(
                row.bytes(),
                at,
                "no checksum vouches for it, and nobody knows such an index",
            );
        }
        match lenient.apply(row, at, rules)? {
            None => {
                self.report.rows += 1;
                self.report.unchecked_rows += u64::from(trust != Trust::Whole);
            }
            Some(Unapplied::NotHere) => self.report.foreign_rows += 1,
            Some(Unapplied::Undefined) => {
                self.has_undefined = true;
                if self.examines || !self.waits_for_guesses {
                    self.drop_row(row.bytes(), at, "its space is not defined")?;
                }
            }
            Some(Unapplied::Unfit(error)) => {
                if self.is_there(lenient, row)? {
                    return Ok(());
                }
                if let Some(parts) = row.space_id().and_then(|id| self.known.parts.get_mut(&id))
                    && error.kind() == ErrorKind::DuplicateKey
                {
                    *parts += 1;
                    self.learns = true;
                }
                self.drop_row(row.bytes(), at, &error.to_string())?;
            }
        }
        self.taken_back(lenient)
    }

    /// Why rows that can be believed so much are not taken, if they are not.
    pub(super) fn unwanted(&self, trust: Trust) -> Option<&'static str> {
        match trust {
            Trust::Whole => None,
            _ if self.options.checked_only => Some("no checksum vouches for it"),
            Trust::Doubtful if !self.options.keeps_doubtful => {
                Some("it comes from a compressed block under a wrong checksum")
            }
            _ => None,
        }
    }

    /// Whether a row brings a tuple that is there, as it is.
    fn is_there(&self, lenient: &mut Lenient<'_, At>, row: &LogRow<'_>) -> Result<bool> {
        let (Some(id), Some(tuple), kind::INSERT) = (row.space_id(), row.tuple(), row.kind()) else {
            return Ok(false);
        };
        let Found::Table(living) = lenient.catalog.find(id)? else { return Ok(false) };
        Ok(present(living, row).ok().flatten().is_some_and(|present| present == tuple))
    }

    pub(super) fn taken_back(&mut self, lenient: &mut Lenient<'_, At>) -> Result<()> {
        for TakenBack { place, row, error } in std::mem::take(&mut lenient.taken_back) {
            self.report.rows = self.report.rows.saturating_sub(1);
            self.drop_row(&row, place, &error.to_string())?;
        }
        Ok(())
    }

    /// A row is not applied.
    fn drop_row(&mut self, row: &[u8], at: At, why: &str) -> Result<()> {
        self.report.dropped_rows += 1;
        (self.drop)(&Dropped { row, at, file: &self.files[at.file], why })
    }

    /// Makes the system spaces such that Tarantool boots.
    fn complete_system(
        &mut self,
        lenient: &mut Lenient<'_, At>,
        instance: Option<&str>,
        rules: &Rules,
    ) -> Result<()> {
        let has_definitions =
            lenient.catalog.rows(system::SPACE_ID).any(|row| look::id(row, 0) == Some(system::SPACE_ID));
        if !has_definitions {
            let text = "the definitions of system spaces are lost; those of a fresh Tarantool 2.6.0 are in their place";
            self.report.notices.push(text.into());
            for (space_id, tuple) in fresh_rows()? {
                add(lenient, space_id, &tuple, rules)?;
            }
        }
        if let Some(instance) = instance {
            let uuid =
                |row: &&[u8]| look::text(row, 1).is_some_and(|uuid| uuid.eq_ignore_ascii_case(instance));
            let is_member = lenient.catalog.rows(system::CLUSTER_ID).any(|row| uuid(&row));
            if !is_member {
                let used: Vec<u32> =
                    lenient.catalog.rows(system::CLUSTER_ID).filter_map(|row| look::id(row, 0)).collect();
                let id = (1..).find(|id| !used.contains(id)).unwrap_or(1);
                let mut row = Vec::new();
                write::array(&mut row, 2);
                write::uint(&mut row, id.into());
                write::str(&mut row, instance.as_bytes());
                add(lenient, system::CLUSTER_ID, &row, rules)?;
                self.report
                    .notices
                    .push(format!("_cluster had no row for the instance {instance}: it has one now"));
            }
            let has_set = lenient
                .catalog
                .rows(system::SCHEMA_ID)
                .any(|row| matches!(look::text(row, 0), Some("cluster" | "replicaset_uuid")));
            if !has_set {
                let mut row = Vec::new();
                write::array(&mut row, 2);
                write::str(&mut row, b"cluster");
                write::str(&mut row, instance.as_bytes());
                add(lenient, system::SCHEMA_ID, &row, rules)?;
                self.report.notices.push(format!(
                    "the UUID of the replica set is lost; it is that of the instance now, {instance}"
                ));
            }
        }
        lenient.end_transaction()
    }

    /// What there is to tell.
    pub(super) fn finish(self, store: &Store) -> SalvageReport {
        let Self { report, known, .. } = self;
        let view = store.read_view();
        let spaces = view.spaces().map(|space| (space.def(), space.len()));
        let spaces =
            spaces.filter(|(def, _)| def.id >= SYSTEM_SPACE_ID_END).map(|(def, tuples)| SavedSpace {
                id: def.id,
                name: def.name.clone(),
                tuples,
                is_guessed: known.parts.contains_key(&def.id),
            });
        SalvageReport {
            snapshot: report.snapshot,
            logs: report.logs,
            skipped_files: report.skipped_files,
            losses: report.losses,
            more_losses: report.more_losses,
            rows: report.rows,
            unchecked_rows: report.unchecked_rows,
            dropped_rows: report.dropped_rows,
            side_file: None,
            foreign_rows: report.foreign_rows,
            spaces: spaces.collect(),
            notices: report.notices,
            written: None,
        }
    }
}

fn is_system(row: &LogRow<'_>) -> bool {
    row.space_id().is_some_and(|id| id < SYSTEM_SPACE_ID_END)
}

/// The UUID of the member whose UUID is this one, but for a character.
fn member_like(lenient: &Lenient<'_, At>, instance: &str) -> Option<String> {
    let members: Vec<&str> =
        lenient.catalog.rows(system::CLUSTER_ID).filter_map(|row| look::text(row, 1)).collect();
    let is_member = members.iter().any(|uuid| uuid.eq_ignore_ascii_case(instance));
    let like = members.into_iter().find(|uuid| is_nearly(uuid, instance)).filter(|_| !is_member)?;
    Some(like.to_ascii_lowercase())
}

/// Whether a file has the name of another vclock; a copy may have any name.
pub(super) fn is_misnamed(file: &NamedFile, vclock: &Vclock) -> bool {
    let stem = file.path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let is_number = stem.len() == 20 && stem.bytes().all(|byte| byte.is_ascii_digit());
    is_number && vclock.signature() != file.signature
}

/// Whether a row defines an index of a type that nobody knows: of a newer Tarantool, or damaged.
fn defines_unknown(row: &LogRow<'_>) -> bool {
    let (Some(system::INDEX_ID), Some(tuple)) = (row.space_id(), row.tuple()) else { return false };
    let is_row = matches!(row.kind(), kind::INSERT | kind::REPLACE);
    let is_unknown = |why: &str| why.contains("unknown type");
    let index = system::index(tuple, &mut Notices::default());
    is_row && index.is_ok_and(|(_, index)| index.absent.as_deref().is_some_and(is_unknown))
}

/// Whether no row is missing, by the numbers of the blocks, and none there twice.
fn are_all(blocks: &[Numbers]) -> bool {
    check_numbers(&mut blocks.to_vec(), &mut Vec::new()).is_ok()
}

/// Adds a row to a system space, if it has none with its key.
fn add(lenient: &mut Lenient<'_, At>, space_id: u32, tuple: &[u8], rules: &Rules) -> Result<()> {
    let at = At { file: 0, block: 0, byte: 0, row: 0 };
    for_each_row(&insert_row(space_id, tuple), |row, _| lenient.apply(row, at, rules).map(drop)).map(drop)
}

/// The row of a snapshot that brings a tuple.
fn insert_row(space_id: u32, tuple: &[u8]) -> Vec<u8> {
    let mut row = vec![0x81, 0x00, kind::INSERT as u8, 0x82, 0x10];
    write::uint(&mut row, space_id.into());
    row.push(0x21);
    row.extend_from_slice(tuple);
    row
}
