import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.AlreadyBeingCreatedException;
import org.apache.hadoop.hdfs.protocol.HdfsConstants;
import org.apache.hadoop.hdfs.protocol.OpenFileEntry;
import org.apache.hadoop.hdfs.protocol.OpenFilesIterator;
import org.apache.hadoop.hdfs.server.namenode.SafeModeException;
import org.apache.hadoop.ipc.RemoteException;
import org.apache.hadoop.ipc.RetriableException;
import org.apache.hadoop.ipc.StandbyException;
import warren.workload.Condition;
import warren.workload.Node;
import warren.workload.Observations;
import warren.workload.Runner;

/**
 * What can be seen of a healed HDFS: leases, the namespace of both NameNodes at one transaction ({@link HdfsTree}), the content of every
 * file as each of them tells where it is, blocks that are missing ({@link HdfsBlocks}), what lies on disks ({@link HdfsDisks}), who is active, and
 * whether failovers can be made and are of use ({@link HdfsFailover}). One object per round.
 */
final class HdfsObserver {
    /** A NameNode asks for a lost recovery of a block again when the last try is 30 heartbeats old (PendingRecoveryBlocks), and not before. */
    private static final long LEASE_AGAIN_NS = (30 * Runner.number("heartbeat_s", 1) + 1) * 1_000_000_000L;
    private static final long LEASE_NS = LEASE_AGAIN_NS + 9_000_000_000L;
    /** The same where it was told already. */
    private static final long LEASE_TOLD_NS = 5_000_000_000L;
    /** So long a NameNode may take to do what it is asked, or to read what the active one has written. */
    private static final long SERVE_NS = Runner.number("serve_ms", 30_000) * 1_000_000L;
    private static final long ROUNDS_NS = 12_000_000_000L;
    /** For one more try of what cannot be read. */
    private static final long AGAIN_NS = 3_000_000_000L;
    private static final long POLL_NS = 50_000_000L;
    private static final int HTTP_MS = 2000;
    /** A client waits up to nine times this within one read of a block that nobody gives it; usually 3 s, so that the patience would be two tries. */
    private static final int READ_PAUSE_MS = 200;
    /** Errors that are about who is asked and when: it is not the active one, or not all there yet. */
    private static final List<String> PASSING = Arrays.asList(
            StandbyException.class.getName(), RetriableException.class.getName(), SafeModeException.class.getName());
    private static final Pattern STATE = Pattern.compile("\"State\" : \"(\\w+)\"");
    private static final Pattern APPLIED = Pattern.compile("LastAppliedOrWrittenTxId[\\\\\": ]+(\\d+)");

    private final Runner run;
    private final Observations out;
    private final HdfsWorkload workload;
    private final boolean durable;
    private final HdfsDisks disks;
    private final HdfsBlocks blocks;
    private final Map<Node, DistributedFileSystem> systems = new LinkedHashMap<>();
    private Node active;
    /** A NameNode that had not read the active one's edits up to `end` when it was last asked; null = none. */
    private Node behind;
    private long end;
    private boolean unreadableTold;

    /** @param durable whether all nodes have just been started again: failovers are asked for then, so that no other run's coverage has them */
    HdfsObserver(Runner run, Observations out, HdfsWorkload workload, boolean durable) {
        this.run = run;
        this.out = out;
        this.workload = workload;
        this.durable = durable;
        disks = new HdfsDisks(run, out);
        blocks = new HdfsBlocks(out, disks);
    }

    boolean observe() throws Exception {
        try {
            for (Node node : run.nodes("nn")) {
                if (node.alive()) {
                    Configuration conf = workload.conf.of(node.name, null);
                    conf.setInt("dfs.client.retry.window.base", READ_PAUSE_MS);
                    systems.put(node, HdfsConf.open(conf, "hdfs://" + node.address + ":" + HdfsConf.RPC));
                    knock(systems.get(node));
                }
            }
            Condition.await(10, () -> findActive());
            orRefused("listing open files", () -> leases());
            orRefused("counting missing blocks", () -> blocks.judge(active, systems.get(active)));
            boolean whole = namespaces();
            orSay("digests", () -> disks.journals());
            orSay("leader", () -> leaders());
            if (durable && systems.size() == 2) {
                failovers();
            }
            return whole;
        } finally {
            for (DistributedFileSystem fs : systems.values()) {
                fs.close();
            }
        }
    }

    /**
     * The library has kept the connection of the round before, to a NameNode that may have been killed since: the first call in it fails,
     * and only that one.
     */
    private static void knock(DistributedFileSystem fs) throws Exception {
        Condition.await(10, () -> {
            fs.setSafeMode(HdfsConstants.SafeModeAction.SAFEMODE_GET);
            return true;
        });
    }

    private interface Question {
        void ask() throws Exception;
    }

    /** What cannot be looked at is said, and takes nothing else with it. */
    private void orSay(String what, Question question) throws Exception {
        try {
            question.ask();
        } catch (IOException e) {
            out.incomplete(what, e.toString());
        }
    }

    /** What the active one answers with an error of its own, however often it is asked, is told, and takes nothing else with it. */
    private void orRefused(String what, Question question) throws Exception {
        try {
            atActive(question);
        } catch (RemoteException e) {
            if (isPassing(e)) {
                throw e;
            }
            out.refused(active, what, first(e));
        }
    }

    private static boolean isPassing(RemoteException e) {
        return PASSING.contains(e.getClassName());
    }

    /** Behind it come the server's stack and that of the call. */
    private static String first(IOException e) {
        return e.toString().split("\n", 2)[0];
    }

    /** Another NameNode may become the active one just when the one that was is asked: then the other is. */
    private void atActive(Question question) throws Exception {
        long limit = 0;
        while (true) {
            try {
                question.ask();
                return;
            } catch (RemoteException e) {
                // Some questions wait for long before they meet one that is the active one no more.
                if (limit == 0) {
                    limit = System.nanoTime() + (isPassing(e) ? ROUNDS_NS : SERVE_NS);
                } else if (System.nanoTime() - limit >= 0) {
                    throw e;
                }
            }
            Thread.sleep(POLL_NS / 1_000_000);
            Condition.await(10, () -> findActive());
        }
    }

    private boolean findActive() throws IOException {
        active = null;
        for (Node node : systems.keySet()) {
            if (state(node).equals("active")) {
                active = node;
            }
        }
        return active != null;
    }

    // ---- questions

    private static String jmx(Node node, String bean) throws IOException {
        URL url = new URL("http://" + node.address + ":9870/jmx?qry=Hadoop:service=NameNode,name=" + bean);
        HttpURLConnection http = (HttpURLConnection) url.openConnection();
        http.setConnectTimeout(HTTP_MS);
        http.setReadTimeout(HTTP_MS);
        try (InputStream in = http.getInputStream()) {
            ByteArrayOutputStream text = new ByteArrayOutputStream();
            byte[] part = new byte[4096];
            for (int n = in.read(part); n > 0; n = in.read(part)) {
                text.write(part, 0, n);
            }
            return new String(text.toByteArray(), StandardCharsets.UTF_8);
        }
    }

    private static String find(Pattern pattern, String text) {
        Matcher m = pattern.matcher(text);
        return m.find() ? m.group(1) : "";
    }

    /** What a NameNode says that it is: active, standby, or something in between. */
    static String state(Node node) throws IOException {
        return find(STATE, jmx(node, "NameNodeStatus"));
    }

    private static long applied(Node node) throws IOException {
        String found = find(APPLIED, jmx(node, "NameNodeInfo"));
        return found.isEmpty() ? -1 : Long.parseLong(found);
    }

    // ---- leases

    /**
     * No client lives that writes: each file that is still open is asked for its recovery until that is taken, once more when a recovery that was
     * lost may be asked for again, and must be closed. What the round before has waited for in vain is not waited for as long. A recovery to which
     * the NameNode answers with an error of its own is asked for as long, and then told as that.
     */
    private void leases() throws Exception {
        DistributedFileSystem fs = systems.get(active);
        long began = System.nanoTime();
        Map<String, Long> asked = new HashMap<>();
        Map<String, RemoteException> errors = new HashMap<>();
        Map<String, String> open = open(fs);
        while (!open.isEmpty()) {
            for (String path : open.keySet()) {
                Long before = asked.get(path);
                boolean due = before == null || System.nanoTime() - before >= LEASE_AGAIN_NS;
                if (due && recovers(fs, path, errors)) {
                    asked.put(path, System.nanoTime());
                }
            }
            LockSupport.parkNanos(POLL_NS);
            open = open(fs);
            long patience = workload.leasesTold.containsAll(open.keySet()) ? LEASE_TOLD_NS : LEASE_NS;
            if (!open.isEmpty() && System.nanoTime() - began >= patience) {
                for (Map.Entry<String, String> e : open.entrySet()) {
                    RemoteException error = errors.get(e.getKey());
                    workload.leasesTold.add(e.getKey());
                    if (error == null) {
                        out.leftover("lease", e.getKey(), e.getValue());
                    } else {
                        out.refused(active, "the recovery of an open file's lease", e.getKey() + ": " + first(error));
                    }
                }
                return;
            }
        }
    }

    /**
     * @param errors has the NameNode's own error, if that is its answer
     * @return false when it is to be asked again: blocks that the writer has ended are on no DataNode yet, as far as the NameNode knows
     */
    private static boolean recovers(DistributedFileSystem fs, String path, Map<String, RemoteException> errors) throws IOException {
        errors.remove(path);
        try {
            fs.recoverLease(new org.apache.hadoop.fs.Path(path));
        } catch (FileNotFoundException e) {
            // it is gone
        } catch (RemoteException e) {
            if (e.getClassName().equals(AlreadyBeingCreatedException.class.getName())) {
                return false;
            }
            if (isPassing(e)) {
                throw e;
            }
            errors.put(path, e);
            return false;
        }
        return true;
    }

    private static Map<String, String> open(DistributedFileSystem fs) throws IOException {
        Map<String, String> open = new TreeMap<>();
        RemoteIterator<OpenFileEntry> all = fs.listOpenFiles(
                EnumSet.of(OpenFilesIterator.OpenFilesType.ALL_OPEN_FILES), "/");
        while (all.hasNext()) {
            OpenFileEntry e = all.next();
            open.put(e.getFilePath(), e.getClientName());
        }
        return open;
    }

    // ---- namespaces

    /**
     * Both namespaces at one transaction: the active one's edits are rolled, the other has read up to there, and the active one's is at the end what
     * it was before they were rolled (rolling alone changes no namespace). A change between the roll and the walk behind it, such as a late close,
     * would be in the active one's only. A NameNode that is not there is not asked.
     */
    private boolean namespaces() throws Exception {
        long limit = System.nanoTime() + ROUNDS_NS;
        String why;
        do {
            try {
                why = attempt();
                if (why == null) {
                    return true;
                }
            } catch (IOException e) {
                why = e.toString();
            }
            LockSupport.parkNanos(POLL_NS);
            Condition.await(10, () -> findActive());
        } while (!unreadableTold && System.nanoTime() - limit < 0);
        follows();
        out.incomplete("replicas", why);
        out.incomplete("digests", why);
        return false;
    }

    /** A healed NameNode that never reads what the active one has written could not take over: it does not serve as what it is there for. */
    private void follows() throws Exception {
        if (behind == null || behind == active || !behind.alive()) {
            return;
        }
        long limit = System.nanoTime() + SERVE_NS;
        String seen = "";
        while (System.nanoTime() - limit < 0) {
            try {
                long applied = applied(behind);
                seen = "has applied " + applied + " of " + end;
                if (applied >= end) {
                    return;
                }
                if (state(behind).equals("active")) {
                    active = behind;
                    return;
                }
            } catch (IOException e) {
                seen = e.toString();
            }
            LockSupport.parkNanos(POLL_NS);
        }
        if (!behind.alive()) {
            return;
        }
        out.refused(behind, "following the active NameNode", seen);
    }

    /** @return null when it was told, else why it could not be */
    private String attempt() throws Exception {
        behind = null;
        Map<Node, HdfsTree> trees = new LinkedHashMap<>();
        trees.put(active, new HdfsTree(systems.get(active)));
        end = systems.get(active).rollEdits() - 1;
        for (Node node : systems.keySet()) {
            if (node != active) {
                behind = node;
                Condition.await(4, () -> applied(node) >= end);
                behind = null;
                trees.put(node, new HdfsTree(systems.get(node)));
            }
        }
        HdfsContents contents = new HdfsContents(systems, trees);
        contents.read();
        for (Node node : trees.keySet()) {
            if (!contents.failed(node).isEmpty()) {
                return unreadable(node, trees.get(node), contents);
            }
        }
        if (!trees.get(active).digest().equals(new HdfsTree(systems.get(active)).digest())) {
            return "the namespace changed while it was read";
        }
        // First what may fail: a second attempt must not tell all of it again.
        disks.replicas(trees.get(active));
        renames(trees.get(active));
        String version = Long.toString(end);
        for (Map.Entry<Node, HdfsTree> t : trees.entrySet()) {
            out.digest(t.getKey(), version, t.getValue().digest());
            for (Map.Entry<String, byte[]> c : contents.of(t.getKey()).entrySet()) {
                out.replica(t.getKey(), version, c.getKey(), workload.files.name(c.getKey(), c.getValue()), null);
            }
        }
        return null;
    }

    /**
     * After healing, and after all patience, some files cannot be read through a NameNode. Of the active one's, those are told that it has
     * closed and that are what they were (an open one is a leftover lease's, and what a standby knows of DataNodes may be behind), whether
     * or not the writer heard that it had closed them: a closed file has had each of its blocks on a disk. Blocks are asked for once more
     * before, because only reading tells a NameNode of replicas that have gone.
     *
     * @return why not all could be read
     */
    private String unreadable(Node node, HdfsTree tree, HdfsContents contents) throws Exception {
        String why = contents.failed(node).size() + " files cannot be read through " + node + ", the first: "
                + contents.failed(node).entrySet().iterator().next();
        // Who is active may have changed meanwhile.
        Condition.await(10, () -> findActive());
        if (node != active) {
            return why;
        }
        atActive(() -> blocks.judge(active, systems.get(active)));
        contents.again(node, System.nanoTime() + AGAIN_NS);
        Map<String, HdfsTree.Entry> now = new HdfsTree(systems.get(node)).entries;
        Map<String, String> open = open(systems.get(node));
        for (Map.Entry<String, IOException> e : contents.failed(node).entrySet()) {
            HdfsTree.Entry file = now.get(e.getKey());
            boolean same = file != null && file.attributes.equals(tree.entries.get(e.getKey()).attributes);
            if (same && node == active && !open.containsKey(e.getKey())) {
                unreadableTold = true;
                tellUnreadable(e.getKey(), file, e.getValue());
            }
        }
        return why;
    }

    /** What is on no disk is lost: safety. What is on one and is not given out is a healed cluster that does not serve. */
    private void tellUnreadable(String path, HdfsTree.Entry file, IOException why) throws Exception {
        String lost = disks.lost(file.blocks);
        if (lost != null) {
            out.mismatch(active, "no DataNode has a block of a closed file", path + ", " + lost + ": " + why);
        } else {
            out.refused(active, "reading a closed file", path + ": " + why);
        }
    }

    /** A rename that may have happened has happened or not: its file is at exactly one of the two names. */
    private void renames(HdfsTree tree) {
        synchronized (workload.operations.doubtful) {
            for (String[] names : workload.operations.doubtful) {
                boolean from = tree.entries.containsKey(names[0]);
                boolean to = tree.entries.containsKey(names[1]);
                if (from == to) {
                    out.mismatch(active, "a renamed file is at " + (from ? "both names" : "neither name"),
                            names[0] + " to " + names[1]);
                }
            }
        }
    }

    // ---- failover

    /** As an administrator would: to the other one, and back. */
    private void failovers() {
        for (Node node : systems.keySet()) {
            if (node != active) {
                new HdfsFailover(workload.conf, out).inEachDirection(active, node);
                return;
            }
        }
    }

    // ---- who leads

    /**
     * The epoch of a NameNode is that of its journal writer. All are asked twice, and the epoch before, between and after: what differs is a failover
     * under way. One that was deposed and has not noticed calls itself active until it writes (only journal nodes fence), so two are asked to roll.
     */
    private void leaders() throws Exception {
        long limit = System.nanoTime() + ROUNDS_NS;
        while (true) {
            long epoch = disks.writerEpoch();
            List<Node> first = actives();
            boolean still = disks.writerEpoch() == epoch && actives().equals(first) && disks.writerEpoch() == epoch;
            if (still && first.size() < 2) {
                first.forEach(node -> out.leader(node, Long.toString(epoch)));
                return;
            }
            boolean all = still && first.size() > 1 && writing(first);
            if (System.nanoTime() - limit >= 0) {
                if (all) {
                    first.forEach(node -> out.leader(node, Long.toString(epoch)));
                } else {
                    out.incomplete("leader", "the active NameNode changes: " + first);
                }
                return;
            }
            Thread.sleep(POLL_NS / 1_000_000);
        }
    }

    /** Whether each of them can write. One that was deposed cannot, and ends itself by trying. */
    private boolean writing(List<Node> actives) {
        int write = 0;
        for (Node node : actives) {
            try {
                systems.get(node).rollEdits();
                write++;
            } catch (IOException e) {
                // It cannot.
            }
        }
        return write == actives.size();
    }

    /** Those that say so; one that has ended meanwhile says nothing. */
    private List<Node> actives() throws IOException {
        List<Node> actives = new ArrayList<>();
        for (Node node : systems.keySet()) {
            try {
                if (state(node).equals("active")) {
                    actives.add(node);
                }
            } catch (IOException e) {
                if (node.alive()) {
                    throw e;
                }
            }
        }
        return actives;
    }
}
