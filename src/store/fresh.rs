//! The system spaces of a new instance, as Tarantool 2.6.0 makes them.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::path::Path;
use std::sync::Arc;

use super::options::Options;
use super::recover::{self, Origin, Recovered};
use super::report::LoadReport;
use super::synchro::Synchro;
use crate::error::{Error, ErrorKind, Result};
use crate::file::rescue::tuples_of;
use crate::file::vclock::Vclock;
use crate::msgpack::{look, write};
use crate::parallel;
use crate::space::alter::{Catalog, Found};
use crate::space::catalog::Schema;
use crate::space::system;
use crate::tuple::slab::Budget;

/// A snapshot of a fresh instance of 2.6.0.
const FRESH: &[u8] = include_bytes!("fresh.snap");

/// The number of the only member of a new replica set.
const REPLICA_ID: u64 = 1;

/// Its rows with the ids of their spaces, without what is of that instance alone.
pub(super) fn fresh_rows() -> Result<Vec<(u32, Vec<u8>)>> {
    let mut rows = Vec::new();
    for (space_id, tuple) in tuples_of(FRESH)? {
        let is_its_own = space_id == system::CLUSTER_ID
            || (space_id == system::SCHEMA_ID && look::text(&tuple, 0) == Some("cluster"));
        if !is_its_own {
            rows.push((space_id, tuple));
        }
    }
    Ok(rows)
}

/// A new instance, the only member of a new replica set.
pub(super) fn recovered(options: &Options) -> Result<Recovered> {
    let (instance, replicaset) = (random_uuid(), random_uuid());
    let mut rows = fresh_rows()?;
    let mut member = Vec::new();
    write::array(&mut member, 2);
    write::uint(&mut member, REPLICA_ID);
    write::str(&mut member, instance.as_bytes());
    rows.push((system::CLUSTER_ID, member));
    let mut cluster = Vec::new();
    write::array(&mut cluster, 2);
    write::str(&mut cluster, b"cluster");
    write::str(&mut cluster, replicaset.as_bytes());
    rows.push((system::SCHEMA_ID, cluster));

    let budget = Arc::new(Budget::new(options.max_memory));
    let load = recover::load_options(options);
    let mut catalog = Catalog::new(Schema::default(), Vec::new(), &|_| true, budget.clone(), load, 0);
    for (space_id, tuple) in &rows {
        let Found::Table(living) = catalog.find(*space_id)? else {
            return Err(Error::new(ErrorKind::Schema, "a system space").space(space_id));
        };
        living.replace(tuple)?;
        catalog.follow(*space_id, None, Some(tuple), true)?;
    }
    catalog.settle_all()?;
    let (schema, tables) = catalog.finish(1)?;
    let vclock = Vclock::default();
    let threads = parallel::threads_for(options.threads, usize::MAX);
    let report = LoadReport::new(Path::new(""), Some(instance.clone()), &vclock, threads);
    let origin = Origin { instance: Some(instance), synchro: Synchro::default(), unconfirmed: 0 };
    Ok(Recovered { schema, tables, report, origin, vclock, budget })
}

/// A UUID of version 4: the keys of the standard library's hasher are random.
fn random_uuid() -> String {
    let random = || RandomState::new().hash_one(0);
    let (high, low) = (random(), random());
    let (a, b, c) = (high >> 32, (high >> 16) & 0xffff, high & 0xfff);
    let (d, e) = ((low >> 48) & 0x3fff | 0x8000, low & 0xffff_ffff_ffff);
    format!("{a:08x}-{b:04x}-4{c:03x}-{d:04x}-{e:012x}")
}
