//! How far a search may go.

/// Bytes that a search may use when nobody says otherwise.
const DEFAULT_MEMORY: u64 = 2 << 30;

/// How far a search may go.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Bytes that the search itself may use; `None`: two gibibytes.
    pub memory_limit: Option<u64>,
    /// The search may stop once `best / bound - 1` is at most this.
    pub gap: f64,
}

impl Settings {
    /// Bytes that the search itself may use.
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.memory_limit.unwrap_or(DEFAULT_MEMORY)
    }
}
