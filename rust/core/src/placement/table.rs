//! Downsets that partial splits have reached, with the labels there.

use std::hash::{BuildHasher, Hasher};

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::placement::labels::Label;

/// A downset and the partial splits up to it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) labels: Vec<Label>,
    /// The least time that devices above spend on what crosses the cut (see `Walk::crossing`).
    pub(crate) crossing: [f64; 3],
}

/// Downsets in one arena, interned by their bits.
pub(crate) struct Table {
    words: usize,
    bits: Vec<u64>,
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
    entries: Vec<Entry>,
    labels: usize,
}

impl Table {
    pub(crate) fn new(words: usize) -> Self {
        Self {
            words,
            bits: Vec::new(),
            index: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            entries: Vec::new(),
            labels: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes that the table takes, about.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.len() * (self.words * 8 + size_of::<Entry>() + 8) * 3 / 2
            + self.labels * size_of::<Label>() * 3 / 2
    }

    pub(crate) fn set(&self, id: u32) -> &[u64] {
        &self.bits[id as usize * self.words..(id as usize + 1) * self.words]
    }

    pub(crate) fn entry(&self, id: u32) -> &Entry {
        &self.entries[id as usize]
    }

    pub(crate) fn entry_mut(&mut self, id: u32) -> &mut Entry {
        &mut self.entries[id as usize]
    }

    /// Changes the labels of a downset.
    pub(crate) fn update<R>(&mut self, id: u32, change: impl FnOnce(&mut Vec<Label>) -> R) -> R {
        let labels = &mut self.entries[id as usize].labels;
        let before = labels.capacity();
        let result = change(labels);
        self.labels += labels.capacity() - before.min(labels.capacity());
        result
    }

    /// Index of a set, and whether it is new.
    pub(crate) fn intern(&mut self, set: &[u64]) -> (u32, bool) {
        let words = self.words;
        let (bits, hasher) = (&mut self.bits, &self.hasher);
        let hash = hash_words(hasher, set);
        let at = |id: u32| id as usize * words..(id as usize + 1) * words;
        if let Some(&id) = self.index.find(hash, |&id| bits[at(id)] == *set) {
            return (id, false);
        }
        let id = self.entries.len() as u32;
        bits.extend_from_slice(set);
        self.index.insert_unique(hash, id, |&id| hash_words(hasher, &bits[at(id)]));
        self.entries.push(Entry { labels: Vec::new(), crossing: [0.0; 3] });
        (id, true)
    }
}

fn hash_words(hasher: &DefaultHashBuilder, words: &[u64]) -> u64 {
    let mut state = hasher.build_hasher();
    for &word in words {
        state.write_u64(word);
    }
    state.finish()
}
