//! Blocks in parallel: find all heads, then let many threads read, check and unpack.
//!
//! ```text
//! scan_heads (heads.rs): hop from head to head, a small read each  -> BlockIndex
//! BlockLoader:           one a thread: pread, checksum, zstd       -> a block's rows, in a buffer it keeps
//! in_order:
//!     tickets --> [ worker: next job, work ] --> results in any order --> put in order --> sink
//!        ^                                                                                  |
//!        +------------------- a new ticket only when a result was taken --------------------+
//! for_each_block_in_order: a job is a block, the work is to load and to map it
//! ```
//!
//! Memory in flight is bounded by the number of threads, however slow one job is: no job is begun that is more than
//! [`IN_FLIGHT_PER_THREAD`] times the threads ahead of the one that the sink waits for.

use super::block::{self, BlockHead};
use super::compress::{BUFFER_BYTES_KEPT, Unpacker, no_memory};
use super::source::ContainerFile;
use crate::error::{Error, ErrorKind};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};

/// Jobs being worked on or waiting for their turn, a thread.
const IN_FLIGHT_PER_THREAD: usize = 4;

/// Loads blocks of a file, one after another, into buffers that are kept.
pub(crate) struct BlockLoader<'a> {
    file: &'a ContainerFile,
    stored: Vec<u8>,
    unpacker: Unpacker,
}

impl<'a> BlockLoader<'a> {
    /// `unpacked_bytes_max`: the most that a block may unpack to; `usize::MAX` for the format's own limit.
    pub(crate) fn new(file: &'a ContainerFile, unpacked_bytes_max: usize) -> Self {
        Self { file, stored: Vec::new(), unpacker: Unpacker::new(unpacked_bytes_max) }
    }

    /// The rows of a block: read, compared with its checksum, unpacked.
    pub(crate) fn load(&mut self, head: &BlockHead) -> Result<&[u8], Error> {
        let stored_bytes = head.stored_bytes as usize;
        if self.stored.len() > BUFFER_BYTES_KEPT {
            self.stored = Vec::new();
        }
        if self.stored.len() < stored_bytes {
            // That so many bytes are in the file was seen when the head was read; a hole in a file costs nothing,
            // though.
            if self.stored.try_reserve_exact(stored_bytes - self.stored.len()).is_err() {
                return Err(self.file.place(no_memory(stored_bytes).block(head.index, head.byte)));
            }
            self.stored.resize(stored_bytes, 0);
        }
        let stored = &mut self.stored[..stored_bytes];
        self.file
            .read_exact_at(stored, head.payload_at())
            .map_err(|error| error.block(head.index, head.byte))?;
        block::check(head, stored).map_err(|error| self.file.place(error))?;
        if !head.compressed {
            return Ok(stored);
        }
        self.unpacker.unpack(stored).map_err(|error| self.file.place(error.block(head.index, head.byte)))
    }
}

/// Loads blocks with `threads` threads, maps each where it was loaded, and gives the results to `sink` in the
/// order of `heads`. The first error in that order ends it.
pub(crate) fn for_each_block_in_order<T, M, S>(
    file: &ContainerFile,
    heads: &[BlockHead],
    threads: usize,
    unpacked_bytes_max: usize,
    map: M,
    mut sink: S,
) -> Result<(), Error>
where
    T: Send,
    M: Fn(&BlockHead, &[u8]) -> Result<T, Error> + Sync,
    S: FnMut(&BlockHead, T) -> Result<(), Error>,
{
    let threads = threads.clamp(1, heads.len().max(1));
    let mut heads = heads.iter();
    in_order(
        if threads == 1 { 0 } else { threads },
        || heads.next(),
        || BlockLoader::new(file, unpacked_bytes_max),
        |loader, head| {
            let payload = loader.load(head).and_then(|payload| {
                map(head, payload).map_err(|error| file.place(error.block(head.index, head.byte)))
            });
            (head, payload)
        },
        |(head, outcome)| sink(head, outcome?).map(ControlFlow::Continue),
    )
}

/// What comes back to the thread that called.
enum Reply<T> {
    /// The job of this number is done, or has panicked: that travels as a result, or the sink would wait for ever
    /// for a job that nobody works on.
    Done(usize, std::thread::Result<T>),
    /// There were so many jobs in all.
    End(usize),
}

/// Does the jobs that `next` gives, each with the state of its thread, in `workers` threads beside the caller's, and
/// gives the results to `sink` in the order of the jobs, in the caller's thread. Without workers all is done in
/// the caller's thread. `next` is called by one thread at a time. The sink may break it off.
pub(crate) fn in_order<J, W, T>(
    workers: usize,
    mut next: impl FnMut() -> Option<J> + Send,
    state: impl Fn() -> W + Sync,
    work: impl Fn(&mut W, J) -> T + Sync,
    mut sink: impl FnMut(T) -> Result<ControlFlow<()>, Error>,
) -> Result<(), Error>
where
    T: Send,
{
    if workers == 0 {
        let mut state = state();
        while let Some(job) = next() {
            if sink(work(&mut state, job))?.is_break() {
                break;
            }
        }
        return Ok(());
    }
    // A job is begun for a ticket, and there is a new ticket only when the sink took a result.
    let in_flight_max = workers * IN_FLIGHT_PER_THREAD;
    let (tickets, tickets_in) = crossbeam::channel::bounded::<()>(in_flight_max);
    let (replies_out, replies) = crossbeam::channel::bounded::<Reply<T>>(in_flight_max);
    let source = Mutex::new((0, next));
    let job = || {
        // What a panic in `next` left behind is of no use, but the panic is on its way to the caller.
        let mut source = source.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, next) = &mut *source;
        let number = *count;
        *count += 1;
        match catch_unwind(AssertUnwindSafe(next)) {
            Ok(None) => {
                *count = number;
                Err(Reply::End(number))
            }
            Ok(Some(job)) => Ok((number, job)),
            Err(panic) => Err(Reply::Done(number, Err(panic))),
        }
    };
    std::thread::scope(|scope| {
        // Dropped when this closure returns, whatever the reason: the workers see the end of their tickets.
        let tickets = tickets;
        for _ in 0..workers {
            let (tickets_in, replies_out) = (tickets_in.clone(), replies_out.clone());
            let (job, state, work) = (&job, &state, &work);
            std::thread::Builder::new()
                .name("lycosa-blocks".into())
                .spawn_scoped(scope, move || {
                    let mut state = state();
                    for () in tickets_in {
                        let reply = job().map_or_else(
                            |reply| reply,
                            |(number, job)| {
                                let done = catch_unwind(AssertUnwindSafe(|| work(&mut state, job)));
                                Reply::Done(number, done)
                            },
                        );
                        if replies_out.send(reply).is_err() {
                            return;
                        }
                    }
                })
                .map_err(|error| Error::new(ErrorKind::Io, format!("cannot start a thread: {error}")))?;
        }
        drop((tickets_in, replies_out));
        let replies = replies;
        for _ in 0..in_flight_max {
            tickets.send(()).expect("the workers take tickets as long as there are any");
        }
        let mut waiting: VecDeque<Option<std::thread::Result<T>>> = VecDeque::new();
        let (mut taken, mut end) = (0, None);
        while end != Some(taken) {
            match replies.recv().expect("the workers answer every ticket") {
                Reply::End(count) => end = Some(count),
                Reply::Done(number, outcome) => {
                    let place = number - taken;
                    waiting.resize_with(waiting.len().max(place + 1), || None);
                    waiting[place] = Some(outcome);
                }
            }
            while let Some(outcome) = waiting.front_mut().and_then(Option::take) {
                waiting.pop_front();
                taken += 1;
                if sink(outcome.unwrap_or_else(|panic| resume_unwind(panic)))?.is_break() {
                    return Ok(());
                }
                if end.is_none() {
                    tickets.send(()).expect("the workers take tickets as long as there are any");
                }
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::super::block::build;
    use super::super::disk::simulated::SimulatedDisk;
    use super::super::heads::scan_heads;
    use super::*;
    use std::path::Path;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const HEADER: &[u8] = b"SNAP\n0.13\nVClock: {}\n\n";

    /// A file of `count` blocks; block n holds n + 1 times the byte n.
    fn file_of(count: usize, scale: usize) -> Vec<u8> {
        let mut bytes = HEADER.to_vec();
        for number in 0..count {
            let rows = vec![number as u8; (number + 1) * scale];
            bytes.extend(if number % 3 == 0 { build::zstd(&rows) } else { build::plain(&rows) });
        }
        bytes.extend(block::MAGIC_END);
        bytes
    }

    fn open(bytes: Vec<u8>) -> Result<ContainerFile, Error> {
        ContainerFile::open(&SimulatedDisk::with("f.snap", bytes), Path::new("f.snap"))
    }

    fn load_all(bytes: Vec<u8>) -> Result<Vec<Vec<u8>>, Error> {
        let file = open(bytes)?;
        let index = scan_heads(&file, |_| {})?;
        let mut loader = BlockLoader::new(&file, 1 << 20);
        index.heads.iter().map(|head| loader.load(head).map(<[u8]>::to_vec)).collect()
    }

    #[test]
    fn small_and_large_blocks_are_found_and_loaded() {
        for scale in [1, 50, 1000, 30_000] {
            let blocks = load_all(file_of(20, scale)).unwrap();
            assert_eq!(blocks.len(), 20);
            for (number, block) in blocks.iter().enumerate() {
                assert!(*block == vec![number as u8; (number + 1) * scale]);
            }
        }
        assert!(load_all(file_of(0, 1)).unwrap().is_empty());
    }

    #[test]
    fn every_cut_of_a_file_is_an_error_that_says_so() {
        let bytes = file_of(5, 3);
        for end in 0..bytes.len() {
            let error = load_all(bytes[..end].to_vec()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Truncated, "cut at {end}: {error}");
            assert!(error.place().file.is_some() && error.place().byte.is_some(), "{error}");
        }
    }

    #[test]
    fn every_flipped_bit_of_a_file_is_an_error_or_changes_no_row() {
        let bytes = file_of(5, 3);
        let blocks = load_all(bytes.clone()).unwrap();
        let mut unnoticed = Vec::new();
        for at in HEADER.len()..bytes.len() {
            for bit in 0..8 {
                let mut bytes = bytes.clone();
                bytes[at] ^= 1 << bit;
                match load_all(bytes) {
                    Ok(found) => {
                        assert_eq!(found, blocks, "bit {bit} of byte {at}");
                        unnoticed.push(at);
                    }
                    Err(error) => assert!(error.place().file.is_some(), "{error}"),
                }
            }
        }
        // The unused number and the content of the padding of the five heads, nothing else.
        unnoticed.dedup();
        let mut byte = HEADER.len();
        let mut expected = Vec::new();
        for number in 0..5 {
            expected.push(byte + 5);
            expected.extend(byte + 12..byte + 19);
            let block::Mark::Block(head) =
                block::mark(&bytes[byte..], byte as u64, number, bytes.len() as u64).unwrap()
            else {
                panic!()
            };
            byte = head.end() as usize;
        }
        assert!(unnoticed.iter().all(|at| expected.contains(at)), "{unnoticed:?} of {expected:?}");
    }

    #[test]
    fn every_failing_call_and_a_shrinking_file_are_errors() {
        let bytes = file_of(6, 30_000);
        let run = |disk: &SimulatedDisk| -> Result<(), Error> {
            let file = ContainerFile::open(disk, Path::new("f.snap"))?;
            let index = scan_heads(&file, |_| {})?;
            for_each_block_in_order(
                &file,
                &index.heads,
                1,
                usize::MAX,
                |_, rows| Ok(rows.len()),
                |_, _| Ok(()),
            )
        };
        let disk = SimulatedDisk::with("f.snap", bytes.clone());
        run(&disk).unwrap();
        let calls = disk.faults().calls.load(Ordering::Relaxed);
        assert!(calls > 12);
        for call in 0..calls {
            let disk = SimulatedDisk::with("f.snap", bytes.clone());
            disk.faults().fail_at.store(call, Ordering::Relaxed);
            let error = run(&disk).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io, "call {call}: {error}");
            let disk = SimulatedDisk::with("f.snap", bytes.clone());
            disk.faults().shrink_at.store(call, Ordering::Relaxed);
            disk.faults().shrunk_to.store(10, Ordering::Relaxed);
            let result = run(&disk);
            if call > 0 {
                assert_eq!(result.unwrap_err().kind(), ErrorKind::Truncated);
            }
        }
    }

    #[test]
    fn results_come_in_order_from_any_number_of_threads_and_few_wait() {
        let file = open(file_of(100, 10)).unwrap();
        let heads = scan_heads(&file, |_| {}).unwrap().heads;
        for threads in [1, 2, 3, 8, 200] {
            let begun = AtomicUsize::new(0);
            let mut sunk = 0;
            for_each_block_in_order(
                &file,
                &heads,
                threads,
                usize::MAX,
                |head, rows| {
                    begun.fetch_add(1, Ordering::Relaxed);
                    if head.index % 10 == 0 {
                        std::thread::sleep(std::time::Duration::from_millis(1));
                    }
                    Ok((head.index, rows.len()))
                },
                |head, (index, bytes)| {
                    assert_eq!((head.index, index), (sunk, sunk));
                    assert_eq!(bytes as u64, (sunk + 1) * 10);
                    assert!(
                        begun.load(Ordering::Relaxed) as u64
                            <= sunk + (threads * IN_FLIGHT_PER_THREAD) as u64 + 1
                    );
                    sunk += 1;
                    Ok(())
                },
            )
            .unwrap();
            assert_eq!(sunk, 100);
        }
    }

    #[test]
    fn the_first_error_in_the_file_s_order_is_the_one_that_is_told() {
        let file = open(file_of(60, 10)).unwrap();
        let heads = scan_heads(&file, |_| {}).unwrap().heads;
        for threads in [1, 2, 4] {
            let mut sunk = 0;
            let error = for_each_block_in_order(
                &file,
                &heads,
                threads,
                usize::MAX,
                |head, _| match head.index {
                    20 => {
                        std::thread::sleep(std::time::Duration::from_millis(20));
                        Err(Error::new(ErrorKind::Row, "late"))
                    }
                    21.. => Err(Error::new(ErrorKind::Row, "early")),
                    _ => Ok(()),
                },
                |_, ()| {
                    sunk += 1;
                    Ok(())
                },
            )
            .unwrap_err();
            assert_eq!((error.what(), error.place().block, sunk), ("late", Some(20), 20));
        }
    }

    #[test]
    fn a_panic_in_a_worker_reaches_the_caller() {
        let file = open(file_of(60, 10)).unwrap();
        let heads = scan_heads(&file, |_| {}).unwrap().heads;
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            for_each_block_in_order(
                &file,
                &heads,
                3,
                usize::MAX,
                |head, _| {
                    assert_ne!(head.index, 30, "on purpose");
                    Ok(())
                },
                |_, ()| Ok(()),
            )
        }));
        assert!(outcome.is_err());
    }

    #[test]
    fn jobs_end_where_the_sink_says_so_or_a_panic_comes_from_where_they_are_made() {
        for workers in [0, 1, 2, 5] {
            let mut given = 0;
            let mut next = || {
                given += 1;
                Some(given)
            };
            let mut sunk = Vec::new();
            in_order(
                workers,
                &mut next,
                || 100,
                |plus, job| job + *plus,
                |result| {
                    sunk.push(result);
                    Ok(if result == 107 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
                },
            )
            .unwrap();
            assert_eq!(sunk, [101, 102, 103, 104, 105, 106, 107]);
            assert!(given <= 7 + (workers + 1) * IN_FLIGHT_PER_THREAD, "{given} for {workers} workers");
            let mut left = 5;
            let next = || {
                left -= 1;
                assert_ne!(left, 0, "on purpose");
                Some(left)
            };
            let mut sunk = 0;
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                in_order(
                    workers,
                    next,
                    || (),
                    |(), job| job,
                    |_| {
                        sunk += 1;
                        Ok(ControlFlow::Continue(()))
                    },
                )
            }));
            assert!(outcome.is_err());
            assert_eq!(sunk, 4);
        }
    }
}
