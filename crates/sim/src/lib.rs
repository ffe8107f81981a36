//! Simulation. Written next.
