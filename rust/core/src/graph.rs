//! A directed graph of numbered nodes with numbered edges.

use std::collections::VecDeque;

/// Index of a node of a [`Graph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// Index of an edge of a [`Graph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EdgeId(pub u32);

impl NodeId {
    /// The index as an offset into a slice.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl EdgeId {
    /// The index as an offset into a slice.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What is wrong with the edges of a would-be graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GraphError {
    /// An edge names a node that does not exist.
    NoSuchNode {
        /// Position of the edge in the list.
        edge: usize,
        /// The node that it names.
        node: u32,
    },
    /// The edges close a cycle; the nodes are listed along it.
    Cycle(Vec<NodeId>),
}

/// A directed graph; parallel edges are allowed and keep their own identity.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    edges: Vec<(NodeId, NodeId)>,
    incoming: Vec<Vec<EdgeId>>,
    outgoing: Vec<Vec<EdgeId>>,
}

impl Graph {
    /// Builds a graph of `nodes` nodes from `(source, target)` pairs.
    ///
    /// Time and space `O(V + E)`.
    ///
    /// # Errors
    /// [`GraphError::NoSuchNode`] when an edge leaves the range `0..nodes`. Cycles are allowed here.
    pub fn new(nodes: usize, edges: &[(u32, u32)]) -> Result<Self, GraphError> {
        let mut graph = Self {
            edges: Vec::with_capacity(edges.len()),
            incoming: vec![Vec::new(); nodes],
            outgoing: vec![Vec::new(); nodes],
        };
        for (edge, &(source, target)) in edges.iter().enumerate() {
            for node in [source, target] {
                if node as usize >= nodes {
                    return Err(GraphError::NoSuchNode { edge, node });
                }
            }
            let id = EdgeId(edge as u32);
            graph.edges.push((NodeId(source), NodeId(target)));
            graph.outgoing[source as usize].push(id);
            graph.incoming[target as usize].push(id);
        }
        Ok(graph)
    }

    /// Number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.incoming.len()
    }

    /// Whether there is no node.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.incoming.is_empty()
    }

    /// All nodes in the order of their numbers.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = NodeId> + use<> {
        (0..self.incoming.len() as u32).map(NodeId)
    }

    /// Source and target of every edge, by [`EdgeId`].
    #[must_use]
    pub fn edges(&self) -> &[(NodeId, NodeId)] {
        &self.edges
    }

    /// Edges into `node`, in the order in which they were given.
    #[must_use]
    pub fn incoming(&self, node: NodeId) -> &[EdgeId] {
        &self.incoming[node.index()]
    }

    /// Edges out of `node`, in the order in which they were given.
    #[must_use]
    pub fn outgoing(&self, node: NodeId) -> &[EdgeId] {
        &self.outgoing[node.index()]
    }

    /// Source of `edge`.
    #[must_use]
    pub fn source(&self, edge: EdgeId) -> NodeId {
        self.edges[edge.index()].0
    }

    /// Target of `edge`.
    #[must_use]
    pub fn target(&self, edge: EdgeId) -> NodeId {
        self.edges[edge.index()].1
    }

    /// A topological order: every edge runs forward in it; among free nodes the one freed first comes first.
    ///
    /// Time `O(V + E)`.
    ///
    /// # Errors
    /// [`GraphError::Cycle`] with the nodes of one cycle.
    pub fn topological_order(&self) -> Result<Vec<NodeId>, GraphError> {
        let mut missing: Vec<usize> = self.incoming.iter().map(Vec::len).collect();
        let mut free: VecDeque<NodeId> = self.nodes().filter(|v| missing[v.index()] == 0).collect();
        let mut order = Vec::with_capacity(self.len());
        while let Some(node) = free.pop_front() {
            order.push(node);
            for &edge in self.outgoing(node) {
                let target = self.target(edge);
                missing[target.index()] -= 1;
                if missing[target.index()] == 0 {
                    free.push_back(target);
                }
            }
        }
        if order.len() == self.len() { Ok(order) } else { Err(GraphError::Cycle(self.some_cycle(&missing))) }
    }

    /// Walks backward among the nodes that a topological sort could not free until a node repeats.
    fn some_cycle(&self, missing: &[usize]) -> Vec<NodeId> {
        let mut seen_at = vec![usize::MAX; self.len()];
        let mut walk = Vec::new();
        let mut next = self.nodes().find(|v| missing[v.index()] > 0);
        while let Some(node) = next {
            if seen_at[node.index()] != usize::MAX {
                walk.drain(..seen_at[node.index()]);
                break;
            }
            seen_at[node.index()] = walk.len();
            walk.push(node);
            next = self.incoming(node).iter().map(|&e| self.source(e)).find(|u| missing[u.index()] > 0);
        }
        walk.reverse();
        walk
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_puts_every_edge_forward() {
        let graph = Graph::new(4, &[(3, 1), (1, 0), (3, 2), (2, 0)]).unwrap();
        let order = graph.topological_order().unwrap();
        let place = |v: NodeId| order.iter().position(|&u| u == v).unwrap();
        for &(u, v) in graph.edges() {
            assert!(place(u) < place(v));
        }
    }

    #[test]
    fn a_cycle_is_named_in_its_own_order() {
        let graph = Graph::new(5, &[(0, 1), (1, 2), (2, 3), (3, 1), (3, 4)]).unwrap();
        let Err(GraphError::Cycle(cycle)) = graph.topological_order() else {
            panic!("the cycle was not found");
        };
        assert_eq!(cycle.len(), 3);
        for (i, &u) in cycle.iter().enumerate() {
            let v = cycle[(i + 1) % cycle.len()];
            assert!(graph.edges().contains(&(u, v)));
        }
    }

    #[test]
    fn an_edge_out_of_range_is_refused() {
        let error = Graph::new(2, &[(0, 1), (1, 2)]).unwrap_err();
        assert_eq!(error, GraphError::NoSuchNode { edge: 1, node: 2 });
    }
}
