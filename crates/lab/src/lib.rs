//! Experiments. Written next.
