//! A row's array as a record of a known shape.
