//! The command line from outside: exact stdout, stderr and status. One binary, one module a command.

mod common;
mod env;
mod estimate;
mod support;
mod verdict;
