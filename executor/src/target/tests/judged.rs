//! What the rules of the repository's targets say of lines that the systems wrote: `[log]`, `[exit]`.

use super::*;

fn shipped(name: &str) -> Target {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../targets");
    load_target(&folder.join(name), None, false, &[]).unwrap()
}

/// Lines as ZooKeeper 3.6.3 wrote them in campaigns (docs/evaluation/findings-zookeeper.md), but for the third in QuorumPeer's thread and that of more than two
/// (its RateLogger's).
#[test]
fn what_zookeeper_must_never_say() {
    let target = shipped("zookeeper");
    let says = |line: &str| {
        target
            .fatal_log
            .iter()
            .any(|p| regex::Regex::new(p).unwrap().is_match(line))
    };
    for (line, fatal) in [
        (
            "2026-11-22 09:38:12,974 - WARN  [CommitProcessor:3:DataTree] - Message:Digests are not matching. Value is Zxid. Value:17179869185",
            true,
        ),
        (
            "2026-11-22 09:38:12,974 - WARN  [QuorumPeer[myid=1](plain=127.0.0.11:2181)(secure=disabled):DataTree] - Message:Digests are not matching. Value is Zxid. Value:8589934631",
            false,
        ),
        (
            "2026-11-23 08:35:21,690 - ERROR [QuorumPeer[myid=4](plain=127.0.0.14:2181)(secure=disabled):DataTree] - First digest mismatch on txn: 216172967362363392,843,8589934710,1795422781338,-11",
            true,
        ),
        (
            "2026-11-23 08:33:03,170 - ERROR [main:DataTree] - First digest mismatch on txn: 216172967362363392,843,8589934710,1795422781338,-11",
            false,
        ),
        (
            "2026-11-22 09:00:12,880 - WARN  [main:DataTree] - [73 times] Message: Digests are not matching. Value is Zxid. Last value:8589934669",
            true,
        ),
        (
            "2026-11-22 09:00:12,862 - WARN  [main:DataTree] - Message:Digests are not matching. Value is Zxid. Value:8589934669",
            false,
        ),
        (
            "2026-11-22 09:00:12,880 - WARN  [main:DataTree] - Message: Digests are not matching. Value is Zxid. Last value:8589934669",
            false,
        ),
        (
            "2026-11-22 09:00:12,488 - INFO  [main:ZooKeeperServer] - zookeeper.digest.enabled = true",
            false,
        ),
    ] {
        assert_eq!(says(line), fatal, "{line}");
    }
}

/// Lines as ZooKeeper 3.9.5 wrote them, in this order, when a follower was sent a snapshot by a busy leader, and what each is to the span of `[log] legal`.
#[test]
fn a_snapshot_that_is_sent_mismatches_until_newleader() {
    let target = shipped("zookeeper");
    let [rule, _] = &target.legal_log[..] else {
        panic!("{:?}", target.legal_log);
    };
    let peer = "[QuorumPeer[myid=4](plain=127.0.0.14:2181)(secure=disabled)";
    for (line, want) in [
        (
            "INFO  [main:QuorumPeerMain] - Starting quorum peer, myid=4",
            "ends",
        ),
        (&format!("INFO  {peer}:QuorumPeer] - LOOKING"), "ends"),
        (
            "INFO  [WorkerReceiver[myid=4]:FastLeaderElection] - Notification: my state:LOOKING; n.sid:1, n.state:LOOKING",
            "-",
        ),
        (
            &format!("INFO  {peer}:Learner] - Getting a snapshot from leader 0x300000005"),
            "begins",
        ),
        (
            &format!(
                "WARN  {peer}:DataTree] - Message:Digests are not matching. Value is Zxid. Value:12884901889"
            ),
            "legal",
        ),
        (
            &format!(
                "ERROR {peer}:DataTree] - First digest mismatch on txn: 144115442842664960,876,12884901889,1795559582197,5"
            ),
            "legal",
        ),
        (
            &format!(
                "WARN  {peer}:DataTree] - [3 times] Message: Digests are not matching. Value is Zxid. Last value:12884901892"
            ),
            "legal",
        ),
        // Another thread has no business in that tree.
        (
            "WARN  [CommitProcessor:4:DataTree] - Message:Digests are not matching. Value is Zxid. Value:12884901889",
            "-",
        ),
        (
            &format!("INFO  {peer}:Learner] - Learner received NEWLEADER message"),
            "ends",
        ),
    ] {
        assert_eq!(in_span(rule, line), want, "{line}");
    }
}

/// What a line is to a span of `[log] legal`.
fn in_span(rule: &warren_model::LogRule, line: &str) -> &'static str {
    let patterns = [&rule.span.after, &rule.line, &rule.span.until];
    match patterns.map(|p| regex::Regex::new(p).unwrap().is_match(line)) {
        [true, false, false] => "begins",
        [false, true, false] => "legal",
        [false, false, true] => "ends",
        [false, false, false] => "-",
        _ => "several",
    }
}

/// Lines as ZooKeeper 3.6.3 wrote them, in this order, when a follower was told to truncate its log and loaded a snapshot.
#[test]
fn a_snapshot_that_is_loaded_mismatches_at_one_transaction() {
    let target = shipped("zookeeper");
    let [_, rule] = &target.legal_log[..] else {
        panic!("{:?}", target.legal_log);
    };
    let peer = "[QuorumPeer[myid=1](plain=127.0.0.11:2181)(secure=disabled)";
    let mismatch =
        "First digest mismatch on txn: 144116097808007168,810,4294969132,1795569355088,2";
    for (line, want) in [
        (
            format!(
                "INFO  {peer}:DataTree] - The digest in the snapshot has digest version of 2, , with zxid as 0x10000072c, and digest value as 25477260625"
            ),
            "begins",
        ),
        (
            format!(
                "WARN  {peer}:DataTree] - Message:Digests are not matching. Value is Zxid. Value:4294969132"
            ),
            "-",
        ),
        (format!("ERROR {peer}:DataTree] - {mismatch}"), "legal"),
        // Once told of, the second is counted: more than one are told, and what follows is told too.
        (
            format!(
                "WARN  {peer}:DataTree] - [7 times] Message: Digests are not matching. Value is Zxid. Last value:4294969132"
            ),
            "ends",
        ),
        (
            format!("INFO  {peer}:FileTxnSnapLog] - 106 txns loaded in 9 ms"),
            "ends",
        ),
        (
            format!(
                "INFO  {peer}:ZKDatabase] - Snapshot loaded in 15 ms, highest zxid is 0x100000781, digest is 80466769391"
            ),
            "ends",
        ),
        // A load that an exception ended.
        (format!("INFO  {peer}:QuorumPeer] - LOOKING"), "ends"),
        (
            format!("INFO  {peer}:Learner] - Learner received NEWLEADER message"),
            "ends",
        ),
        (
            format!("ERROR [CommitProcessor:1:DataTree] - {mismatch}"),
            "-",
        ),
    ] {
        assert_eq!(in_span(rule, &line), want, "{line}");
    }
}

/// Whether a rule of `[exit] legal` excuses a process that wrote this.
fn excused(target: &Target, said: &str) -> bool {
    let excuses = |r: &warren_model::ExitRule| {
        let log = regex::Regex::new(&r.log).unwrap();
        first_span(r, said).is_some_and(|said| log.is_match(said))
    };
    target.legal_exits.iter().any(excuses)
}

/// What a rule looks at; of spans the first, which is all that is asked here (feedback's `check::exits` has all that they mean).
fn first_span<'a>(rule: &warren_model::ExitRule, said: &'a str) -> Option<&'a str> {
    let Some(span) = &rule.span else {
        return Some(said);
    };
    let [after, until] = [&span.after, &span.until].map(|p| regex::Regex::new(p).unwrap());
    let begins = after.captures(said)?;
    let rest = &said[begins.get(0)?.start()..];
    let mut ends = until.captures_iter(rest);
    let end = ends.find(|e| e.get(1).map(|g| g.as_str()) == begins.get(1).map(|g| g.as_str()));
    Some(end.map_or(rest, |e| &rest[..e.get(0).map_or(0, |m| m.start())]))
}

/// As a region server of 2.4.8 says it, with the head of the stack and the causes given; of a master where it says so.
fn hbase_aborts(why: &str, causes: &str) -> String {
    format!(
        "2026-11-29 00:51:31,570 - ERROR [RS_CLOSE_REGION-regionserver/rs3:16020-0:HRegionServer] - ***** ABORTING {why} *****\n\
         org.apache.hadoop.hbase.DroppedSnapshotException: region: FAVMyInfo,,1795913463632.60349464b2e2bfd883fee3af38a5fc9c.\n\
         \tat org.apache.hadoop.hbase.regionserver.HRegion.internalFlushCacheAndCommit(HRegion.java:3045)\n\
         {causes}\t... 10 more\n\
         2026-11-29 00:51:31,578 - INFO  [RS_CLOSE_REGION-regionserver/rs3:16020-0:HRegionServer] - STOPPED: Replay of WAL required.\n"
    )
}

#[test]
fn a_flush_that_failed_excuses_hbase_only_by_what_the_network_or_hdfs_said() {
    let target = shipped("hbase");
    const SERVER: &str = "region server 127.0.0.15,16020,1795913253103: Replay of WAL required. Forcing server shutdown";
    const MASTER: &str =
        "master 127.0.0.11,16000,1795913236354: Failed to flush master local region";
    const LOST: &str = "2026-11-29 00:51:18,289 - WARN  [main-SendThread(127.0.0.19:2181):ClientCnxn] - Client session timed out, have not heard from server in 9611ms for sessionid 0x1000109786d0006\n";
    let back = |session: &str| {
        format!(
            "{LOST}2026-11-29 00:51:19,002 - INFO  [main-SendThread(127.0.0.19:2181):ClientCnxn] - Session establishment complete on server zk1/127.0.0.19:2181, sessionid = {session}, negotiated timeout = 8000\n"
        )
    };
    let (again, another) = (back("0x1000109786d0006"), back("0x1000109786d0009"));
    let over = |session: &str| {
        format!(
            "2026-11-29 00:51:25,324 - INFO  [main-EventThread:ClientCnxn] - EventThread shut down for session: {session}\n"
        )
    };
    let closed = format!("{LOST}{}", over("0x1000109786d0006"));
    let other_closed = format!("{LOST}{}", over("0x1000109786d0009"));
    let expired = format!(
        "{LOST}2026-11-29 00:51:25,324 - WARN  [main-SendThread(127.0.0.19:2181):ClientCnxn] - Unable to reconnect to ZooKeeper service, session 0x1000109786d0006 has expired\n{}",
        over("0x1000109786d0006")
    );
    let never = LOST.replace("0x1000109786d0006", "0x0");
    const GONE: &str = "Caused by: java.io.IOException: Failed to commit the flush\n\
        \tat org.apache.hadoop.hbase.regionserver.HStore$StoreFlusherImpl.commit(HStore.java:2440)\n\
        \t... 10 more\n\
        Caused by: java.io.FileNotFoundException: hdfs://127.0.0.16:8020/hbase/data/default/FAVMyInfo/60349464b2e2bfd883fee3af38a5fc9c/.tmp/Personal/9f33\n\
        \tat org.apache.hadoop.hbase.regionserver.HRegionFileSystem.preCommitStoreFile(HRegionFileSystem.java:491)\n";
    let table = [
        (
            "a pipeline that is broken",
            "",
            "Caused by: java.io.IOException: All datanodes [127.0.0.17:9866] are bad. Aborting...\n\tat org.apache.hadoop.hdfs.DataStreamer.handleBadDatanode(DataStreamer.java:1561)\n",
            true,
        ),
        (
            "no connection",
            "",
            "Caused by: java.net.ConnectException: Connection refused\n\tat java.base/sun.nio.ch.Net.pollConnect(Native Method)\n",
            true,
        ),
        (
            "no connection in time, as Hadoop says it",
            "",
            "Caused by: org.apache.hadoop.net.ConnectTimeoutException: Call From hm1/127.0.0.11 to 127.0.0.16:8020 failed on socket timeout exception\n\tat org.apache.hadoop.net.NetUtils.wrapWithMessage(NetUtils.java:831)\n",
            true,
        ),
        (
            "the NameNode, of a file that another one has by now",
            "",
            "Caused by: org.apache.hadoop.ipc.RemoteException(java.io.FileNotFoundException): File does not exist: /hbase/x (inode 16470) [Lease.  Holder: DFSClient_1, pending creates: 1]\n",
            true,
        ),
        (
            "keys out of order: HBase's own",
            "",
            "Caused by: java.io.IOException: Added a key not lexically larger than previous\n\tat org.apache.hadoop.hbase.io.hfile.HFileWriterImpl.checkKey(HFileWriterImpl.java:245)\n",
            false,
        ),
        (
            "a rename that failed: HBase's own",
            "",
            "Caused by: java.io.IOException: Failed rename of hdfs://a to hdfs://b\n\tat org.apache.hadoop.hbase.regionserver.HRegionFileSystem.commitStoreFile(HRegionFileSystem.java:470)\n",
            false,
        ),
        (
            "its file is gone, and it heard from ZooKeeper all the time",
            "",
            GONE,
            false,
        ),
        // As rs3 of a campaign, cut off for 20 s and declared dead; it learnt so 200 ms after it had ended itself.
        (
            "its file is gone, and it may have been declared dead",
            LOST,
            GONE,
            true,
        ),
        (
            "its session goes on, so nobody has declared it dead",
            &again,
            GONE,
            false,
        ),
        (
            "another client of its process is back",
            &another,
            GONE,
            true,
        ),
        (
            "it had no session that could have ended",
            &never,
            GONE,
            false,
        ),
        (
            "it has closed the session itself, and heard by another one",
            &closed,
            GONE,
            false,
        ),
        ("it has closed another session", &other_closed, GONE, true),
        ("its session has expired", &expired, GONE, true),
    ];
    for (what, before, causes, want) in table {
        for why in [SERVER, MASTER] {
            let said = format!("{before}{}", hbase_aborts(why, causes));
            assert_eq!(excused(&target, &said), want, "{what}: {why}");
        }
    }
}

/// As rs1 of a campaign said it, cut off for 50 s.
#[test]
fn what_cannot_reach_zookeeper_excuses_hbase_only_while_its_session_is_away() {
    let target = shipped("hbase");
    let lost = "2026-11-29 03:17:24,729 - WARN  [main-SendThread(127.0.0.19:2181):ClientCnxn] - Client session timed out, have not heard from server in 5334ms for sessionid 0x100018cce920002\n";
    let back = "2026-11-29 03:17:25,884 - INFO  [main-SendThread(127.0.0.19:2181):ClientCnxn] - Session establishment complete on server zk1/127.0.0.19:2181, sessionid = 0x100018cce920002, negotiated timeout = 8000\n";
    // A client that was asked nothing for a minute, of another session.
    let idle = "2026-11-29 03:18:03,223 - WARN  [ReadOnlyZKClient-127.0.0.19:2181@0x7d7d9a59-SendThread(127.0.0.19:2181):ClientCnxn] - Client session timed out, have not heard from server in 8002ms for sessionid 0x100018cce920004\n\
        2026-11-29 03:18:03,324 - INFO  [ReadOnlyZKClient-127.0.0.19:2181@0x7d7d9a59-EventThread:ClientCnxn] - EventThread shut down for session: 0x100018cce920004\n";
    let expired = "2026-11-29 03:18:08,261 - WARN  [main-SendThread(127.0.0.19:2181):ClientCnxn] - Unable to reconnect to ZooKeeper service, session 0x100018cce920002 has expired\n\
        2026-11-29 03:18:08,261 - INFO  [main-EventThread:ClientCnxn] - EventThread shut down for session: 0x100018cce920002\n";
    let ends = |code: &str| {
        format!(
            "2026-11-29 03:18:05,349 - ERROR [regionserver/rs1:16020:RecoverableZooKeeper] - ZooKeeper getData failed after 4 attempts\n\
             2026-11-29 03:18:05,352 - ERROR [regionserver/rs1:16020:HRegionServer] - ***** ABORTING region server 127.0.0.13,16020,1795921843023: Unexpected exception handling getData *****\n\
             org.apache.zookeeper.KeeperException${code}Exception: KeeperErrorCode = {code} for /hbase/master\n\
             \tat org.apache.zookeeper.KeeperException.create(KeeperException.java:102)\n"
        )
    };
    for (before, code, want) in [
        (lost.to_owned(), "ConnectionLoss", true),
        (lost.repeat(2), "ConnectionLoss", true),
        (format!("{lost}{back}"), "ConnectionLoss", false),
        (idle.to_owned(), "ConnectionLoss", false),
        (format!("{lost}{idle}"), "ConnectionLoss", true),
        (format!("{lost}{expired}"), "ConnectionLoss", true),
        (format!("{lost}{expired}"), "BadVersion", false),
        (String::new(), "ConnectionLoss", false),
        (lost.to_owned(), "BadVersion", false),
    ] {
        let said = before + &ends(code);
        assert_eq!(excused(&target, &said), want, "{said}");
    }
}

/// As a NameNode of 3.3.1 says it.
#[test]
fn a_journal_that_cannot_be_written_excuses_a_namenode_only_by_an_outage_or_another_writer() {
    let target = shipped("hdfs");
    let fatal = "2026-11-24 10:00:00,123 - FATAL [IPC Server handler 1 on default port 8020:FSEditLog] - Error: flush failed for required journal (JournalAndStream(mgr=QJM to [127.0.0.13:8485, 127.0.0.14:8485, 127.0.0.15:8485], stream=QuorumOutputStream starting at txid 5))\n";
    let next = "2026-11-24 10:00:00,125 - INFO  [main:ExitUtil] - Exiting with status 1\n";
    for (why, want) in [
        (
            "java.io.IOException: Timed out waiting 20000ms for a quorum of nodes to respond.\n\tat org.apache.hadoop.hdfs.qjournal.client.AsyncLoggerSet.waitForWriteQuorum(AsyncLoggerSet.java:138)\n",
            true,
        ),
        (
            "org.apache.hadoop.hdfs.qjournal.client.QuorumException: Got too many exceptions to achieve quorum size 2/3. 3 exceptions thrown:\n127.0.0.14:8485: IPC's epoch 1 is less than the last promised epoch 2 ; journal id: ns\n",
            true,
        ),
        (
            "org.apache.hadoop.hdfs.qjournal.client.QuorumException: Got too many exceptions to achieve quorum size 2/3. 2 exceptions thrown:\n127.0.0.14:8485: Call From nn1/127.0.0.11 to jn2:8485 failed on connection exception: java.net.ConnectException: Connection refused\n",
            true,
        ),
        (
            "org.apache.hadoop.hdfs.qjournal.client.QuorumException: Got too many exceptions to achieve quorum size 2/3. 3 exceptions thrown:\n127.0.0.14:8485: Writer out of sync: it thinks it is writing segment 5 but current segment is 4\n",
            false,
        ),
        ("", false),
    ] {
        let said = format!("{fatal}{why}{next}2026-11-24 10:00:01,000 - WARN  [x] - Timed out\n");
        assert_eq!(excused(&target, &said), want, "{why}");
    }
}
