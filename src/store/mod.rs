//! The running whole: a store, the views of it, and what changes it.

mod batch;
pub(crate) mod define;
pub(crate) mod diff;
pub(crate) mod export;
mod fresh;
mod lenient;
mod limbo;
pub(crate) mod metrics;
pub(crate) mod op;
pub(crate) mod options;
mod reclaim;
mod recover;
mod replay;
pub(crate) mod report;
mod rows;
pub(crate) mod salvage;
mod sequences;
pub(crate) mod snapshot;
mod state;
pub(crate) mod stats;
mod synchro;
pub(crate) mod transaction;
#[expect(unsafe_code, reason = "getrusage fills a C struct")]
mod usage;
pub(crate) mod view;

use std::fmt;
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use crate::error::Result;
use crate::index::build::RECOVERY_TXN;
use crate::space::catalog::Schema;
use crate::space::loader::LoadOptions;
use crate::tuple::slab::Budget;
use options::Options;
use recover::Recovered;
use report::LoadReport;
use state::{Registry, State, Tables};
use transaction::Writer;
use view::ReadView;

/// A store in memory: made anew, or opened from what Tarantool wrote.
///
/// It is read through views and changed by transactions, from any thread. There is one transaction at a time; views never
/// wait for it, nor it for them. What transactions change is in memory alone until somebody calls
/// [`Store::write_snapshot`].
///
/// ```
/// use lycosa::{FieldType, IndexSpec, IteratorType, Op, SpaceSpec, Store};
///
/// let store = Store::in_memory();
/// let users = store.create_space(
///     SpaceSpec::new("users")
///         .field("id", FieldType::Unsigned)
///         .field("name", FieldType::String)
///         .field("age", FieldType::Unsigned)
///         .index(IndexSpec::tree("pk").part("id"))
///         .index(IndexSpec::tree("by_name").part("name").part("age").non_unique()),
/// )?;
/// store.write(|tx| {
///     tx.insert(users, (1, "Ann", 34))?;
///     tx.update(users, (1,), [Op::add("age", 1)])
/// })?;
/// let view = store.read_view();
/// for tuple in view.select(users, "by_name", IteratorType::Ge, ("Ann",))? {
///     let (id, name, age): (u64, &str, u32) = tuple.decode()?;
///     assert_eq!((id, name, age), (1, "Ann", 35));
/// }
/// # Ok::<(), lycosa::Error>(())
/// ```
pub struct Store {
    registry: Arc<Registry>,
    report: LoadReport,
    settings: Settings,
    /// Made by the first transaction.
    writer: Mutex<Option<Writer>>,
    /// Marks the thread that has a transaction; 0: none has.
    writing: AtomicUsize,
}

/// What of a store was chosen when it was opened.
struct Settings {
    budget: Arc<Budget>,
    load: LoadOptions,
    threads: usize,
    tuple_bytes_max: usize,
    /// Only some spaces are in memory.
    is_partial: bool,
}

impl Store {
    /// A store of no spaces but the system ones, as a new instance of Tarantool has them.
    pub fn in_memory() -> Self {
        Self::in_memory_with(&Options::new()).expect("without a limit there is memory for the system spaces")
    }

    /// As [`Store::in_memory`], with options: those about memory, threads and tuples count.
    ///
    /// # Errors
    /// `Memory`: the limit is less than what the system spaces take.
    pub fn in_memory_with(options: &Options) -> Result<Self> {
        Ok(Self::new(fresh::recovered(options)?, options))
    }

    /// Opens a data folder: its newest snapshot, and every transaction that its logs hold after that; or a lone `.snap`
    /// file.
    ///
    /// ```
    /// let view = lycosa::Store::open("snapshots/2.6/02-one-space")?.read_view();
    /// let tuple = view.get("users", (14,))?.expect("the sample has a user 14");
    /// let (id, name, age): (u64, &str, u32) = tuple.decode()?;
    /// assert_eq!((id, name, age), (14, "dqsxi", 34));
    /// # Ok::<(), lycosa::Error>(())
    /// ```
    ///
    /// # Errors
    /// Whatever is wrong with a file, with its place. The end of the last log may be torn, as a crash leaves it: it is left
    /// out, and the report tells.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &Options::new())
    }

    /// Opens with options.
    ///
    /// # Errors
    /// As [`Store::open`]; `Memory` where a limit is reached, `NoSuchSpace` and `Absent` for spaces asked for.
    pub fn open_with(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        Ok(Self::new(recover::recover(path.as_ref(), options)?, options))
    }

    fn new(recovered: Recovered, options: &Options) -> Self {
        let Recovered { schema, tables, report, origin, vclock, budget } = recovered;
        let settings = Settings {
            budget,
            load: recover::load_options(options),
            threads: options.threads,
            tuple_bytes_max: options.max_tuple_bytes,
            is_partial: !options.spaces.is_empty(),
        };
        let state = State {
            version: RECOVERY_TXN,
            vclock,
            schema: Arc::new(schema),
            tables: Tables::new(tables),
            origin: Arc::new(origin),
        };
        let registry = Arc::new(Registry::new(state));
        Self { registry, report, settings, writer: Mutex::new(None), writing: AtomicUsize::new(0) }
    }

    /// What opening the store did and cost.
    pub fn report(&self) -> &LoadReport {
        &self.report
    }

    /// The store as it is now, for reading. It costs the same whatever the store holds.
    pub fn read_view(&self) -> ReadView {
        ReadView::new(&self.registry)
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.read_view().fmt(f)
    }
}

impl Schema {
    /// Reads the definitions alone, from the newest snapshot of a folder or a lone `.snap` file.
    ///
    /// # Errors
    /// As [`Store::open`], for the part of the file that holds definitions.
    pub fn read(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        recover::read_schema(path.as_ref(), options)
    }
}
