//! The providers on the wire, and the models without one.
