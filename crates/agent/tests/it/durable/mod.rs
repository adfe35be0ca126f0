//! Runs that survive what happens to them: processes that are killed, two at once, a full disk, a damaged database.

mod checks;
mod damage;
mod disk_full;
mod driver;
mod kill;
mod ledger;
mod moments;
mod placed;
mod process;
mod script;
mod writers;
