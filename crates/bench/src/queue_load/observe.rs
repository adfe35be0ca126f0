//! What PostgreSQL says about itself.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Serialize;
use tokio_postgres::{Client, NoTls};

/// A connection for questions about the server.
pub(super) struct Observer {
    pub(super) client: Client,
    /// The first process of the server, if it runs on this machine and may be looked at.
    postmaster: Option<u32>,
}

/// The tables that are looked at.
pub(super) const TABLES: [&str; 5] =
    ["prowess_queue", "prowess_inbox", "prowess_threads", "prowess_owned_threads", "prowess_events"];

/// What PostgreSQL did since it started.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Work {
    /// Bytes of its log of changes, and how many whole pages are in it.
    pub(super) wal_bytes: i64,
    pub(super) wal_pages: i64,
    /// CPU seconds of all its processes.
    pub(super) cpu: Option<f64>,
    pub(super) transactions: i64,
    pub(super) tables: BTreeMap<String, Table>,
}

/// A table.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Table {
    pub(super) live: i64,
    pub(super) dead: i64,
    pub(super) updates: i64,
    /// Updates that changed no index.
    pub(super) hot_updates: i64,
    pub(super) vacuums: i64,
    /// Seconds since the last automatic vacuum.
    pub(super) vacuumed: Option<f64>,
    pub(super) bytes: i64,
    /// The size of each index.
    pub(super) indexes: BTreeMap<String, i64>,
}

impl Table {
    pub(super) fn index_bytes(&self) -> i64 {
        self.indexes.values().sum()
    }
}

/// Connects. The connection ends with its client.
pub(super) async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(async move {
        // Whoever asks next is told.
        let _ = connection.await;
    });
    Ok(client)
}

impl Observer {
    pub(super) async fn connect(url: &str) -> Result<Self> {
        let client = connect(url).await?;
        // Only a superuser may ask, and only a local server has the file.
        let directory = client.query_one("SELECT current_setting('data_directory')", &[]).await;
        let postmaster = directory.ok().and_then(|row| {
            let file = Path::new(row.get::<_, &str>(0)).join("postmaster.pid");
            std::fs::read_to_string(file).ok()?.lines().next()?.parse().ok()
        });
        Ok(Self { client, postmaster })
    }

    /// The version and the settings that matter.
    pub(super) async fn settings(&self) -> Result<Vec<(String, String)>> {
        const ASK: &str = "SELECT name, current_setting(name) FROM pg_settings WHERE name IN (\
            'server_version', 'fsync', 'synchronous_commit', 'full_page_writes', 'shared_buffers', 'wal_compression', \
            'max_wal_size', 'autovacuum_naptime') ORDER BY name";
        let rows = self.client.query(ASK, &[]).await?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }

    pub(super) async fn look(&self) -> Result<Work> {
        const WORK: &str = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::BIGINT, wal_fpi::BIGINT, \
            (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()) FROM pg_stat_wal";
        const SIZES: &str = "SELECT stat.relname::TEXT, stat.n_live_tup, stat.n_dead_tup, stat.n_tup_upd, stat.n_tup_hot_upd, \
            stat.autovacuum_count, extract(epoch FROM now() - stat.last_autovacuum)::FLOAT8, \
            pg_table_size(stat.relid) \
            FROM pg_stat_user_tables AS stat WHERE stat.relname = ANY ($1)";
        const INDEXES: &str = "SELECT relname::TEXT, indexrelname::TEXT, pg_relation_size(indexrelid) \
            FROM pg_stat_user_indexes WHERE relname = ANY ($1)";
        let row = self.client.query_one(WORK, &[]).await?;
        let names = &TABLES[..];
        let mut tables: BTreeMap<String, Table> = BTreeMap::new();
        for row in self.client.query(SIZES, &[&names]).await? {
            let table = Table {
                live: row.get(1),
                dead: row.get(2),
                updates: row.get(3),
                hot_updates: row.get(4),
                vacuums: row.get(5),
                vacuumed: row.get(6),
                bytes: row.get(7),
                indexes: BTreeMap::new(),
            };
            tables.insert(row.get(0), table);
        }
        for row in self.client.query(INDEXES, &[&names]).await? {
            if let Some(table) = tables.get_mut(row.get::<_, &str>(0)) {
                table.indexes.insert(row.get(1), row.get(2));
            }
        }
        let (wal_bytes, wal_pages, transactions) = (row.get(0), row.get(1), row.get(2));
        let cpu = self.postmaster.and_then(|process| processor(process).ok());
        Ok(Work { wal_bytes, wal_pages, cpu, transactions, tables })
    }

    /// How many rows cannot be claimed any more and are not removed yet: in the queue, the inboxes and the threads.
    pub(super) async fn dead(&self) -> Result<[i64; 3]> {
        const ASK: &str = "SELECT COALESCE(SUM(n_dead_tup) FILTER (WHERE relname = 'prowess_queue'), 0)::BIGINT, \
            COALESCE(SUM(n_dead_tup) FILTER (WHERE relname = 'prowess_inbox'), 0)::BIGINT, \
            COALESCE(SUM(n_dead_tup) FILTER (WHERE relname = 'prowess_threads'), 0)::BIGINT FROM pg_stat_user_tables";
        let row = self.client.query_one(ASK, &[]).await?;
        Ok([row.get(0), row.get(1), row.get(2)])
    }
}

/// The CPU seconds of a process, of its children, and of those that ended.
fn processor(process: u32) -> Result<f64> {
    let ticks_per_second = 100.0;
    let children = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children"))?;
    let mut ticks = ticks_of(process, 4)?;
    for child in children.split_ascii_whitespace().filter_map(|child| child.parse().ok()) {
        // One that just ended counts with its parent.
        ticks += ticks_of(child, 2).unwrap_or_default();
    }
    Ok(ticks / ticks_per_second)
}

/// The first two fields are the process's own time, and the next two that of its children that ended.
fn ticks_of(process: u32, fields: usize) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let (_, after_name) = text.rsplit_once(") ").context("the fields of a process have another form")?;
    let times = after_name.split(' ').skip(11).take(fields);
    Ok(times.filter_map(|ticks| ticks.parse::<f64>().ok()).sum())
}
