//! Asking for memory before it is read. `unsafe`: the one instruction that does it, which has no effect that a program
//! could see.

/// Asks for the cache line at an address, which need not be one that may be read.
#[inline]
pub(crate) fn line<T>(at: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch reads nothing that the program can see, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}
