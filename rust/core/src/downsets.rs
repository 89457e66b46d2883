//! Downsets of a graph: sets of nodes that contain all successors of their members.
//!
//! A pipeline is a chain of downsets; each stage is the difference of two consecutive ones.

use std::hash::{BuildHasher, Hasher};

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::graph::{Graph, NodeId};

/// Index of a downset in a [`Lattice`]. Smaller downsets come first, so the index order extends inclusion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DownsetId(pub u32);

impl DownsetId {
    /// The index as an offset into a slice.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A view of a set of nodes, one bit a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeSet<'a>(&'a [u64]);

impl<'a> NodeSet<'a> {
    /// Whether `node` is a member.
    #[must_use]
    pub fn contains(self, node: NodeId) -> bool {
        self.0[node.index() / 64] >> (node.index() % 64) & 1 == 1
    }

    /// Whether every member is in `other`.
    #[must_use]
    pub fn is_subset(self, other: NodeSet<'_>) -> bool {
        self.0.iter().zip(other.0).all(|(a, b)| a & !b == 0)
    }

    /// Number of members.
    #[must_use]
    pub fn len(self) -> usize {
        self.0.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Whether there is no member.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0.iter().all(|&w| w == 0)
    }

    /// Members that are not in `other`, in increasing order.
    pub fn difference(self, other: NodeSet<'a>) -> impl Iterator<Item = NodeId> + 'a {
        self.0.iter().zip(other.0).enumerate().flat_map(|(word, (a, b))| {
            let mut rest = a & !b;
            std::iter::from_fn(move || {
                (rest != 0).then(|| {
                    let bit = rest.trailing_zeros();
                    rest &= rest - 1;
                    NodeId(word as u32 * 64 + bit)
                })
            })
        })
    }
}

/// Why an enumeration ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfinished<E> {
    /// There are more downsets than the given number.
    TooMany,
    /// The observer said stop.
    Stopped(E),
}

/// Nodes that only move together, with what must be below them: the condensation of a graph.
#[derive(Clone, Debug)]
pub struct Blocks {
    nodes: usize,
    members: Vec<Vec<NodeId>>,
    successors: Vec<Vec<u32>>,
    predecessors: Vec<Vec<u32>>,
}

impl Blocks {
    /// Condenses `graph`, in which the nodes of every group of `together` count as strongly connected.
    ///
    /// Time `O(V + E)` (Tarjan 1972, iterative).
    #[must_use]
    pub fn new(graph: &Graph, together: &[Vec<NodeId>]) -> Self {
        let mut adjacent: Vec<Vec<u32>> =
            graph.nodes().map(|v| graph.outgoing(v).iter().map(|&e| graph.target(e).0).collect()).collect();
        for group in together {
            for (i, v) in group.iter().enumerate() {
                adjacent[v.index()].push(group[(i + 1) % group.len()].0);
            }
        }
        let (component, count) = strong_components(&adjacent);
        let mut members = vec![Vec::new(); count];
        for v in graph.nodes() {
            members[component[v.index()]].push(v);
        }
        let mut successors = vec![Vec::new(); count];
        let mut predecessors = vec![Vec::new(); count];
        for (v, next) in adjacent.iter().enumerate() {
            for &w in next {
                let (a, b) = (component[v], component[w as usize]);
                if a != b {
                    successors[a].push(b as u32);
                    predecessors[b].push(a as u32);
                }
            }
        }
        for list in successors.iter_mut().chain(&mut predecessors) {
            list.sort_unstable();
            list.dedup();
        }
        Self { nodes: graph.len(), members, successors, predecessors }
    }

    /// Number of blocks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there is no block.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Number of nodes.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Nodes of a block.
    #[must_use]
    pub fn members(&self, block: usize) -> &[NodeId] {
        &self.members[block]
    }

    /// Blocks that a block has an edge to.
    #[must_use]
    pub fn successors(&self, block: usize) -> &[u32] {
        &self.successors[block]
    }

    /// Blocks that have an edge to a block.
    #[must_use]
    pub fn predecessors(&self, block: usize) -> &[u32] {
        &self.predecessors[block]
    }
}

/// Component of every node and their number; a component is numbered before all that it is reachable from.
fn strong_components(adjacent: &[Vec<u32>]) -> (Vec<usize>, usize) {
    const NEW: usize = usize::MAX;
    let n = adjacent.len();
    let (mut index, mut low, mut component) = (vec![NEW; n], vec![0; n], vec![NEW; n]);
    let (mut stack, mut next_index, mut count) = (Vec::new(), 0, 0);
    let mut walk: Vec<(usize, usize)> = Vec::new();
    for root in 0..n {
        if index[root] != NEW {
            continue;
        }
        walk.push((root, 0));
        while let Some(&mut (v, ref mut position)) = walk.last_mut() {
            if *position == 0 {
                index[v] = next_index;
                low[v] = next_index;
                next_index += 1;
                stack.push(v);
            }
            if let Some(&w) = adjacent[v].get(*position) {
                *position += 1;
                let w = w as usize;
                if index[w] == NEW {
                    walk.push((w, 0));
                } else if component[w] == NEW {
                    low[v] = low[v].min(index[w]);
                }
                continue;
            }
            walk.pop();
            if let Some(&(parent, _)) = walk.last() {
                low[parent] = low[parent].min(low[v]);
            }
            if low[v] == index[v] {
                while let Some(w) = stack.pop() {
                    component[w] = count;
                    if w == v {
                        break;
                    }
                }
                count += 1;
            }
        }
    }
    (component, count)
}

/// Distinct downsets in one arena, smallest first, the empty and the full one included.
#[derive(Clone, Debug)]
pub struct Lattice {
    words: usize,
    bits: Vec<u64>,
    complete: bool,
}

impl Lattice {
    /// All downsets, by breadth-first search over the covering relation.
    ///
    /// Each downset is stored once (an arena of words, interned by a hash table of indices). Time
    /// `O(D * w * (V / 64 + 1))` for `D` downsets in which at most `w` blocks can be added to one; space
    /// `D * V / 8` bytes and the transient lists of addable blocks of two consecutive sizes.
    ///
    /// # Errors
    /// [`Unfinished::TooMany`] when there are more than `most`; [`Unfinished::Stopped`] when `tick` fails, which is
    /// called with the number of downsets so far about every thousand of them.
    pub fn enumerate<E>(
        blocks: &Blocks,
        most: usize,
        mut tick: impl FnMut(usize) -> Result<(), E>,
    ) -> Result<Self, Unfinished<E>> {
        let mut arena = Arena::new(blocks.nodes);
        let sinks: Vec<u32> =
            (0..blocks.len() as u32).filter(|&b| blocks.successors[b as usize].is_empty()).collect();
        let mut level = vec![(arena.intern_empty(), sinks)];
        let mut set = vec![0; arena.words];
        while !level.is_empty() {
            let mut above = Vec::new();
            for (below, addable) in level {
                for &block in &addable {
                    set.copy_from_slice(arena.get(below));
                    insert(&mut set, &blocks.members[block as usize]);
                    let (id, new) = arena.intern(&set);
                    if !new {
                        continue;
                    }
                    if arena.len() > most {
                        return Err(Unfinished::TooMany);
                    }
                    if arena.len().is_multiple_of(1024) {
                        tick(arena.len()).map_err(Unfinished::Stopped)?;
                    }
                    above.push((id, blocks.addable_after(&set, block, &addable)));
                }
            }
            level = above;
        }
        Ok(arena.sorted(true))
    }

    /// The given downsets (each a list of blocks' closures made by the caller) without repetition, with the empty and
    /// the full set. Not [complete](Self::complete).
    #[must_use]
    pub fn from_sets<'a>(nodes: usize, sets: impl Iterator<Item = &'a [u64]>) -> Self {
        let mut arena = Arena::new(nodes);
        arena.intern_empty();
        for set in sets {
            arena.intern(set);
        }
        let mut full = vec![0; arena.words];
        insert(&mut full, &(0..nodes as u32).map(NodeId).collect::<Vec<_>>());
        arena.intern(&full);
        arena.sorted(false)
    }

    /// Number of downsets.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bits.len() / self.words
    }

    /// Never: the empty set is always there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Whether these are all downsets of the graph.
    #[must_use]
    pub fn complete(&self) -> bool {
        self.complete
    }

    /// One downset.
    #[must_use]
    pub fn get(&self, id: DownsetId) -> NodeSet<'_> {
        NodeSet(&self.bits[id.index() * self.words..(id.index() + 1) * self.words])
    }

    /// All of them, smallest first.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = DownsetId> + ExactSizeIterator + use<> {
        (0..self.len() as u32).map(DownsetId)
    }

    /// The set of all nodes.
    #[must_use]
    pub fn full(&self) -> DownsetId {
        DownsetId(self.len() as u32 - 1)
    }

    /// Bytes that the arena takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bits.len() * size_of::<u64>()
    }
}

impl Blocks {
    /// Blocks that can be added to `set`, which came about by adding `block` where `before` could be added.
    fn addable_after(&self, set: &[u64], block: u32, before: &[u32]) -> Vec<u32> {
        let inside = |b: u32| NodeSet(set).contains(self.members[b as usize][0]);
        let freed = self.predecessors[block as usize].iter().copied();
        let freed = freed.filter(|&p| self.successors[p as usize].iter().all(|&s| inside(s)));
        before.iter().copied().filter(|&b| b != block).chain(freed).collect()
    }
}

/// Adds nodes to a set of bits.
pub(crate) fn insert(set: &mut [u64], nodes: &[NodeId]) {
    for node in nodes {
        set[node.index() / 64] |= 1 << (node.index() % 64);
    }
}

struct Arena {
    words: usize,
    bits: Vec<u64>,
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Arena {
    fn new(nodes: usize) -> Self {
        Self {
            words: nodes.div_ceil(64).max(1),
            bits: Vec::new(),
            table: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
        }
    }

    fn len(&self) -> usize {
        self.bits.len() / self.words
    }

    fn get(&self, id: u32) -> &[u64] {
        &self.bits[id as usize * self.words..(id as usize + 1) * self.words]
    }

    fn intern_empty(&mut self) -> u32 {
        let empty = vec![0; self.words];
        self.intern(&empty).0
    }

    /// Index of `set`, and whether it is new.
    fn intern(&mut self, set: &[u64]) -> (u32, bool) {
        let words = self.words;
        let (bits, hasher) = (&mut self.bits, &self.hasher);
        let hash = hash_words(hasher, set);
        let at = |id: u32| id as usize * words..(id as usize + 1) * words;
        if let Some(&id) = self.table.find(hash, |&id| bits[at(id)] == *set) {
            return (id, false);
        }
        let id = (bits.len() / words) as u32;
        bits.extend_from_slice(set);
        self.table.insert_unique(hash, id, |&id| hash_words(hasher, &bits[at(id)]));
        (id, true)
    }

    /// The sets by size, then by their bits: an order that does not depend on how they were found.
    fn sorted(self, complete: bool) -> Lattice {
        let sizes: Vec<usize> = (0..self.len() as u32).map(|id| NodeSet(self.get(id)).len()).collect();
        let mut ids: Vec<u32> = (0..self.len() as u32).collect();
        ids.sort_unstable_by_key(|&id| (sizes[id as usize], self.get(id)));
        let mut bits = Vec::with_capacity(self.bits.len());
        for id in ids {
            bits.extend_from_slice(self.get(id));
        }
        Lattice { words: self.words, bits, complete }
    }
}

fn hash_words(hasher: &DefaultHashBuilder, words: &[u64]) -> u64 {
    let mut state = hasher.build_hasher();
    for &word in words {
        state.write_u64(word);
    }
    state.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lattice(nodes: usize, edges: &[(u32, u32)], together: &[Vec<NodeId>]) -> Lattice {
        let blocks = Blocks::new(&Graph::new(nodes, edges).unwrap(), together);
        Lattice::enumerate(&blocks, usize::MAX, |_| Ok::<(), ()>(())).unwrap()
    }

    fn members(set: NodeSet<'_>, nodes: usize) -> Vec<u32> {
        (0..nodes as u32).filter(|&v| set.contains(NodeId(v))).collect()
    }

    #[test]
    fn a_chain_has_one_downset_a_length() {
        let found = lattice(5, &[(0, 1), (1, 2), (2, 3), (3, 4)], &[]);
        let sets: Vec<Vec<u32>> = found.ids().map(|id| members(found.get(id), 5)).collect();
        let suffixes: Vec<Vec<u32>> = (0..=5).rev().map(|first| (first..5).collect()).collect();
        assert_eq!(sets, suffixes);
    }

    #[test]
    fn nodes_without_edges_have_all_subsets() {
        assert_eq!(lattice(10, &[], &[]).len(), 1 << 10);
    }

    #[test]
    fn two_chains_have_a_grid() {
        let edges: Vec<(u32, u32)> = (0..69).chain(70..139).map(|v| (v, v + 1)).collect();
        assert_eq!(lattice(140, &edges, &[]).len(), 71 * 71);
    }

    #[test]
    fn a_downset_comes_after_all_that_it_contains() {
        let found = lattice(6, &[(0, 2), (1, 2), (2, 3), (2, 4), (1, 5)], &[]);
        for larger in found.ids() {
            for smaller in found.ids().skip(larger.index() + 1) {
                assert!(!found.get(smaller).is_subset(found.get(larger)));
            }
            for node in (0..6).map(NodeId).filter(|&v| found.get(larger).contains(v)) {
                let graph = Graph::new(6, &[(0, 2), (1, 2), (2, 3), (2, 4), (1, 5)]).unwrap();
                assert!(graph.outgoing(node).iter().all(|&e| found.get(larger).contains(graph.target(e))));
            }
        }
    }

    #[test]
    fn nodes_that_are_together_take_along_what_is_between_them() {
        let found = lattice(4, &[(0, 1), (1, 2), (2, 3)], &[vec![NodeId(0), NodeId(2)]]);
        let sets: Vec<Vec<u32>> = found.ids().map(|id| members(found.get(id), 4)).collect();
        assert_eq!(sets, [vec![], vec![3], vec![0, 1, 2, 3]]);
    }

    #[test]
    fn too_many_downsets_are_refused_and_the_observer_can_stop() {
        let blocks = Blocks::new(&Graph::new(20, &[]).unwrap(), &[]);
        let refused = Lattice::enumerate(&blocks, 1000, |_| Ok::<(), ()>(()));
        assert_eq!(refused.err(), Some(Unfinished::TooMany));
        let stopped = Lattice::enumerate(&blocks, usize::MAX, |count| if count > 5000 { Err(count) } else { Ok(()) });
        assert_eq!(stopped.err(), Some(Unfinished::Stopped(5120)));
    }
}
