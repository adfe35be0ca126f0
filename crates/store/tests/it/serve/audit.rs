//! Tests of the audit log.

use prowess_agent::ThreadId;
use serde_json::json;

use crate::support::databases;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_are_listed_from_the_last() {
    let place = tempfile::tempdir().unwrap();
    for database in databases(&place).await {
        let audit = database.audit();
        assert_eq!(audit.list(None, 9).await.unwrap(), []);
        let thread = ThreadId::new();
        for number in 0..5 {
            let of = (number % 2 == 0).then_some(&thread);
            audit
                .note("anna \u{0}", "approved", of, &json!({"number": number, "text": "\u{0}"}))
                .await
                .unwrap();
        }
        let first = audit.list(None, 3).await.unwrap();
        let told: Vec<_> = first.iter().map(|entry| (&entry.detail["number"], &entry.thread)).collect();
        assert_eq!(
            told,
            [(&json!(4), &Some(thread.clone())), (&json!(3), &None), (&json!(2), &Some(thread))]
        );
        assert_eq!((first[0].user.as_str(), first[0].action.as_str()), ("anna \u{fffd}", "approved"));
        let second = audit.list(Some(first[2].number), 3).await.unwrap();
        assert_eq!(second.len(), 2);
        assert!(second[0].number < first[2].number && second[0].at <= first[2].at);
        assert_eq!(audit.list(Some(second[1].number), 3).await.unwrap(), []);
    }
}
