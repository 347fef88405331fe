//! A progress bar on standard error, where that is a terminal; nothing at all elsewhere.

use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};
use lycosa::{Options, Progress, ProgressCallback, SnapshotOptions};

use crate::print;

pub struct Bar(Option<ProgressBar>);

impl Bar {
    /// A bar over the bytes of a snapshot. `wanted` is false for JSON.
    pub fn bytes(wanted: bool) -> Self {
        Self::new(wanted, "{msg:24} {wide_bar} {bytes} of {total_bytes}")
    }

    /// A bar over the runs of a benchmark.
    pub fn runs(wanted: bool, runs: u64) -> Self {
        let bar = Self::new(wanted, "{wide_bar} run {pos} of {len} {msg}");
        if let Some(bar) = &bar.0 {
            bar.set_length(runs);
        }
        bar
    }

    fn new(wanted: bool, template: &str) -> Self {
        if !wanted {
            return Self(None);
        }
        let bar = ProgressBar::new(0); // draws on standard error, and is hidden where that is no terminal
        if bar.is_hidden() {
            return Self(None);
        }
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self(Some(bar))
    }

    /// Lets the library's progress drive the bar while a store is opened.
    pub fn follow(&self, options: Options) -> Options {
        match self.callback() {
            Some(callback) => options.progress(callback),
            None => options,
        }
    }

    /// The same while a snapshot is written.
    pub fn follow_writing(&self, options: SnapshotOptions) -> SnapshotOptions {
        match self.callback() {
            Some(callback) => options.progress(callback),
            None => options,
        }
    }

    fn callback(&self) -> Option<ProgressCallback> {
        let bar = self.0.clone()?;
        Some(Arc::new(move |progress: &Progress| {
            bar.set_length(progress.bytes_total);
            bar.set_position(progress.bytes);
            bar.set_message(format!("{} {} rows", progress.stage.name(), print::count(progress.rows)));
        }))
    }

    pub fn step(&self, message: String) {
        if let Some(bar) = &self.0 {
            bar.inc(1);
            bar.set_message(message);
        }
    }

    pub fn clear(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// A failing command must not leave half a bar above its message.
impl Drop for Bar {
    fn drop(&mut self) {
        self.clear();
    }
}
