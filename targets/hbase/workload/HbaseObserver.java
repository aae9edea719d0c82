import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.hbase.ClusterMetrics;
import org.apache.hadoop.hbase.DoNotRetryIOException;
import org.apache.hadoop.hbase.MetaTableAccessor;
import org.apache.hadoop.hbase.ServerName;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.master.RegionState;
import org.apache.hadoop.hbase.util.Bytes;
import warren.workload.Node;
import warren.workload.Observations;
import warren.workload.Runner;

/**
 * What can be seen of a healed HBase: regions in transition, procedures and locks that do not end; meta, servers and files
 * ({@link HbaseLayout}); every table, and every row by get and by scan. One object per round.
 */
final class HbaseObserver {
    /** So long what the last faults began may take to end. */
    private static final long SETTLE_NS = Runner.number("serve_ms", 60_000) * 1_000_000L;
    /** So long a table that nothing is under way for may take to be read, however late nothing was under way. */
    private static final long READ_NS = 15_000_000_000L;
    private static final long POLL_NS = 100_000_000L;
    private static final long ADMIN_MS = 20_000;
    /** A server may try for longer than a call usually lasts before it can say why it does not give a row. */
    private static final int LAST_MS = 20_000;
    /** Of a procedure's line: its class and how it stands. */
    private static final Pattern CLASS = Pattern.compile("\"className\":\\s*\"([^\"]*)\"");
    private static final Pattern STATE = Pattern.compile("\"state\":\\s*\"([A-Z_]+)\"");
    /** Of a lock's line: what kind of thing is locked. */
    private static final Pattern LOCKED = Pattern.compile("\"resourceType\":\\s*\"([A-Z_]+)\"");
    /** What a server says of files that are not there or not whole. Anything else may be said by a slow one. */
    private static final Pattern LOST = Pattern.compile(".*(FileNotFound|CorruptHFile|Checksum)Exception.*");
    private static final List<String> OVER = Arrays.asList("SUCCESS", "FAILED", "ROLLEDBACK");

    private final Runner run;
    private final Observations out;
    private final HbaseWorkload workload;
    private final boolean durable;
    private Connection connection;
    private Admin admin;
    /** Tells of tables and rows; it leads. */
    private Node master;
    /** Order numbers of what was read of rows last, by key. */
    private final Map<String, Long> numbers = new TreeMap<>();
    private final long began = System.nanoTime();

    /** @param durable whether all nodes have just been started again: nobody has asked for service since */
    HbaseObserver(Runner run, Observations out, HbaseWorkload workload, boolean durable) {
        this.run = run;
        this.out = out;
        this.workload = workload;
        this.durable = durable;
    }

    boolean observe() throws Exception {
        try (Connection made = ConnectionFactory.createConnection(workload.conf.of(ADMIN_MS)); Admin its = made.getAdmin()) {
            connection = made;
            admin = its;
            if (!settled()) {
                // What a restart of all loses is not to look as if the test had shown it.
                if (!durable) {
                    new HbaseReads(run, workload).make();
                }
                return false;
            }
            long limit = Math.max(began + SETTLE_NS, System.nanoTime() + READ_NS);
            boolean whole = layout(limit);
            boolean led = leader();
            return contents(Math.max(limit, System.nanoTime() + READ_NS)) && whole && led;
        }
    }

    /**
     * Who leads now tells of the rows: another one may have taken over since the layout was looked at. A master's start stands for its epoch. Two
     * that take themselves for it are a failover under way, or one that was deposed and has not noticed, until the wait for their end is over: with
     * ZooKeeper in reach it learns that its session has expired, and stops. Told are those that said so each time. One that does not answer is said;
     * the rows are still read.
     */
    private boolean leader() {
        long limit = System.nanoTime() + SETTLE_NS;
        try (HbaseMasters masters = new HbaseMasters(connection.getConfiguration())) {
            Map<Node, ServerName> always = null;
            while (true) {
                ServerName leads = admin.getMaster();
                Node node = node("hm", leads);
                if (node == null) {
                    throw new IOException(leads + " is no node of the cluster");
                }
                master = node;
                Map<Node, ServerName> active = masters.active(run.nodes("hm"));
                active.put(master, leads);
                always = always == null ? new LinkedHashMap<>(active) : always;
                always.entrySet().retainAll(active.entrySet());
                boolean over = System.nanoTime() - limit >= 0;
                if (active.size() == 1 || over && always.size() > 1) {
                    (active.size() == 1 ? active : always).forEach((at, name) -> out.leader(at, Long.toString(name.getStartcode())));
                    return true;
                }
                if (over) {
                    throw new IOException("the active master changes: " + active);
                }
                LockSupport.parkNanos(POLL_NS);
            }
        } catch (IOException e) {
            out.incomplete("leader", e.toString());
        }
        return false;
    }

    /**
     * A look takes its time, and a server may end in the midst of it: what disagrees is told when a second look sees the same, nothing is under
     * way before and after, and the same servers live. A server that was started again may answer later than the master knows it. A layout that
     * cannot be looked at is said; the rows are still read.
     */
    private boolean layout(long limit) {
        String why = "";
        while (true) {
            try {
                Map<String, String[]> wrong = steadyLook();
                if (wrong != null && !wrong.isEmpty()) {
                    LockSupport.parkNanos(POLL_NS);
                    Map<String, String[]> again = steadyLook();
                    wrong = again == null ? null : both(wrong, again);
                }
                why = "servers came and went, or something was under way, or what disagrees was another thing, whenever it was looked at";
                if (wrong != null) {
                    wrong.values().forEach(w -> out.mismatch(master, w[0], w[1]));
                    return true;
                }
            } catch (IOException e) {
                why = e.toString();
            }
            if (System.nanoTime() - limit >= 0) {
                out.incomplete("replicas", "layout: " + why);
                return false;
            }
            LockSupport.parkNanos(POLL_NS);
        }
    }

    /** @return what disagrees, by its text; null when something was under way before or after the look, or other servers live than before */
    private Map<String, String[]> steadyLook() throws IOException {
        TreeSet<ServerName> before = living();
        if (!underWay().isEmpty()) {
            return null;
        }
        Map<String, String[]> wrong = new TreeMap<>();
        for (String[] one : new HbaseLayout(connection, admin).look()) {
            wrong.put(one[0] + ": " + one[1], one);
        }
        return underWay().isEmpty() && before.equals(living()) ? wrong : null;
    }

    private TreeSet<ServerName> living() throws IOException {
        return new TreeSet<>(admin.getClusterMetrics().getLiveServerMetrics().keySet());
    }

    /** @return what both have; null when each has something and they share nothing: then it is looked at again */
    private static Map<String, String[]> both(Map<String, String[]> one, Map<String, String[]> other) {
        Map<String, String[]> both = new TreeMap<>(one);
        both.keySet().retainAll(other.keySet());
        return both.isEmpty() && !other.isEmpty() ? null : both;
    }

    // ---- what is still under way

    /**
     * What has not ended, each as {kind, key, owner}. The kind alone tells one bug from another, so it has a procedure's class and what kind of thing is
     * locked: known-bugs.toml lists them.
     */
    private List<String[]> underWay() throws IOException {
        ClusterMetrics now = admin.getClusterMetrics();
        List<String[]> open = new ArrayList<>();
        master = node("hm", now.getMasterName());
        if (master == null) {
            throw new IOException("no node is the active master " + now.getMasterName());
        }
        for (Node node : run.nodes("rs")) {
            boolean lives = false;
            for (ServerName server : now.getLiveServerMetrics().keySet()) {
                lives |= server.getHostname().equals(node.address);
            }
            if (node.alive() && !lives) {
                open.add(new String[] {"region server that the master does not know", node.name, "master"});
            }
        }
        for (RegionState region : now.getRegionStatesInTransition()) {
            open.add(new String[] {"region in transition", region.getRegion().getRegionNameAsString(), region.getState().name()});
        }
        for (String procedure : objects(admin.getProcedures())) {
            String state = find(STATE, procedure);
            if (!OVER.contains(state)) {
                String name = find(CLASS, procedure);
                String type = name.substring(name.lastIndexOf('.') + 1);
                open.add(new String[] {"procedure " + type, type, state});
            }
        }
        for (String lock : objects(admin.getLocks())) {
            open.add(new String[] {"lock " + find(LOCKED, lock), lock.replaceAll("\\s+", " "), "master"});
        }
        return open;
    }

    private static String find(Pattern pattern, String text) {
        Matcher m = pattern.matcher(text);
        return m.find() ? m.group(1) : "";
    }

    private static Node named(Node node, ServerName server) {
        return server != null && server.getHostname().equals(node.address) ? node : null;
    }

    private Node node(String prefix, ServerName server) {
        for (Node node : run.nodes(prefix)) {
            if (named(node, server) != null) {
                return node;
            }
        }
        return null;
    }

    /** The objects of a JSON array, each as its text. */
    static List<String> objects(String array) {
        List<String> all = new ArrayList<>();
        int depth = 0;
        int from = 0;
        boolean quoted = false;
        for (int i = 0; i < array.length(); i++) {
            char c = array.charAt(i);
            if (quoted) {
                if (c == '\\') {
                    i++;
                } else if (c == '"') {
                    quoted = false;
                }
            } else if (c == '"') {
                quoted = true;
            } else if (c == '{' && depth++ == 0) {
                from = i;
            } else if (c == '}' && --depth == 0) {
                all.add(array.substring(from, i + 1));
            }
        }
        return all;
    }

    /**
     * Waits until hbase:meta can be read and nothing is under way; what is left then never ends.
     *
     * @return false when nobody could be asked, or something is left: what it has done by half is no inconsistency yet
     */
    private boolean settled() {
        long limit = System.nanoTime() + SETTLE_NS;
        boolean read = false;
        boolean answered = false;
        while (true) {
            IOException why = null;
            try {
                // After a restart a master may know of nothing to do yet, while no server has hbase:meta.
                MetaTableAccessor.getTableStates(connection);
                read = true;
                List<String[]> open = underWay();
                answered = true;
                if (open.isEmpty()) {
                    return true;
                }
                if (System.nanoTime() - limit >= 0) {
                    for (String[] one : open) {
                        out.leftover(one[0], one[1], one[2]);
                    }
                    out.incomplete("replicas", open.size() + " things are still under way, the first a " + open.get(0)[0]);
                    return false;
                }
            } catch (IOException e) {
                why = e;
            }
            if (why != null && System.nanoTime() - limit >= 0) {
                // Before the restart, whoever asked for service has told of it.
                if (durable && !answered) {
                    out.refused(someMaster(), read ? "telling what is under way" : "reading hbase:meta", first(last(why)));
                }
                out.incomplete("leftovers", why.toString());
                out.incomplete("replicas", why.toString());
                return false;
            }
            LockSupport.parkNanos(POLL_NS);
        }
    }

    /** The one that leads, as far as it is known. */
    private Node someMaster() {
        List<Node> all = run.nodes("hm");
        return master != null ? master : all.stream().filter(Node::alive).findFirst().orElse(all.get(0));
    }

    // ---- contents

    /** @return whether all tables could be read; one that could not ends it, as the round can be compared no more */
    private boolean contents(long limit) throws Exception {
        Map<String, String> told = new TreeMap<>();
        for (String table : new TreeSet<>(workload.tables.names())) {
            String[] state = new String[1];
            if (!patient(table, limit, by -> state[0] = HbaseTables.seen(by, admin, table))) {
                return false;
            }
            String seen = state[0];
            if (seen != null) {
                tell(told, HbaseTables.key(table), seen, 0);
            }
            Map<String, String> rows = new TreeMap<>();
            if (seen != null && !rows(table, seen, rows, limit)) {
                return false;
            }
            for (Map.Entry<String, String> row : rows.entrySet()) {
                String key = HbaseRows.key(table, row.getKey());
                tell(told, key, row.getValue(), numbers.getOrDefault(key, 0L));
            }
            half(table, seen, rows);
        }
        // Says that all of it was read, too: a cluster that has no table any more has no line of its own else.
        out.digest(master, "0", Integer.toHexString(told.hashCode()));
        return true;
    }

    /** @param number of the change that wrote it; 0 = not known, or of a kind of key that has none */
    private void tell(Map<String, String> told, String key, String value, long number) {
        told.put(key, value);
        out.replica(master, "0", key, value, number == 0 ? null : Long.toString(number));
    }

    /** All rows of a table. A disabled one is enabled for it, and disabled again: what is left enabled is no table of the history's any more. */
    private boolean rows(String table, String seen, Map<String, String> rows, long limit) throws Exception {
        boolean enabled = seen.startsWith("enabled ");
        if (enabled && workload.leftEnabled.contains(table)) {
            out.incomplete("replicas", table + " was enabled to be read and could not be disabled again");
            return false;
        }
        workload.leftEnabled.remove(table);
        if (enabled) {
            return steadyRows(table, rows, limit);
        }
        TableName name = TableName.valueOf(table);
        workload.leftEnabled.add(table);
        if (!turned(table, limit, () -> admin.isTableEnabled(name), () -> admin.enableTable(name),
                "a table that is not enabled cannot be enabled", seen)) {
            return false;
        }
        boolean whole = false;
        try {
            whole = steadyRows(table, rows, limit);
        } finally {
            long again = Math.max(limit, System.nanoTime() + READ_NS);
            if (turned(table, again, () -> admin.isTableDisabled(name), () -> admin.disableTable(name),
                    "a table cannot be disabled again", seen)) {
                workload.leftEnabled.remove(table);
            } else {
                whole = false;
            }
        }
        return whole;
    }

    private interface Asked<T> {
        T ask() throws IOException;
    }

    private interface Turn {
        void make() throws IOException;
    }

    /**
     * Enables or disables a table: asked for again until the limit, as one call may only have been slow. What a master refuses each time in so many
     * words is told as a table that is neither one nor the other; what does not come about in its time is a healed cluster that does not serve, and so
     * is what is refused because an earlier call is still under way.
     */
    private boolean turned(String table, long limit, Asked<Boolean> there, Turn turn, String what, String seen) throws Exception {
        IOException last = null;
        boolean refused = true;
        while (last == null || System.nanoTime() - limit < 0) {
            try {
                if (!there.ask()) {
                    turn.make();
                }
                return true;
            } catch (IOException e) {
                last = e;
                refused &= e instanceof DoNotRetryIOException;
                Thread.sleep(POLL_NS / 1_000_000);
            }
        }
        String why = table + ": " + seen + ": " + first(last);
        if (refused) {
            out.mismatch(master, what, why);
        } else {
            out.refused(master, what, why);
        }
        out.incomplete("replicas", why);
        return false;
    }

    private interface Reading {
        void read(Connection by) throws Exception;
    }

    /**
     * A table that cannot be read is tried again until the limit, then once more with calls that wait longer. It is enabled and nothing is
     * under way, so that then it still cannot is told, whether or not the rows were acknowledged: files that are gone or damaged are lost
     * data, else a healed cluster does not serve.
     */
    private boolean patient(String table, long limit, Reading reading) throws Exception {
        while (System.nanoTime() - limit < 0) {
            try {
                reading.read(connection);
                return true;
            } catch (IOException e) {
                Thread.sleep(POLL_NS / 1_000_000);
            }
        }
        try (Connection last = ConnectionFactory.createConnection(workload.conf.patient(ADMIN_MS, LAST_MS))) {
            reading.read(last);
            return true;
        } catch (IOException e) {
            tellUnreadable(table, e);
            return false;
        }
    }

    /** The last cause says it: what is around it are tries and stacks. */
    private static Throwable last(Throwable e) {
        Throwable cause = e;
        while (cause.getCause() != null) {
            cause = cause.getCause();
        }
        return cause;
    }

    private static String first(Throwable e) {
        return e.toString().split("\n", 2)[0];
    }

    private void tellUnreadable(String table, IOException e) {
        Throwable cause = last(e);
        String why = table + ": " + first(cause);
        Matcher lost = LOST.matcher(cause.toString());
        if (lost.find()) {
            out.mismatch(master, "files of a table are gone or damaged", why + "; " + lost.group().trim());
        } else {
            out.refused(master, "reading a table", why);
        }
        out.incomplete("replicas", why);
    }

    /**
     * All rows of an enabled table by get and by scan. An operation whose client has given it up may still come between the two, so what disagrees is told
     * when a second look sees the same, as with the layout.
     */
    private boolean steadyRows(String table, Map<String, String> rows, long limit) throws Exception {
        while (true) {
            Map<String, String[]> wrong = new TreeMap<>();
            Map<String, String[]> again = new TreeMap<>();
            if (!patient(table, limit, by -> read(by, table, rows, wrong))) {
                return false;
            }
            if (!wrong.isEmpty()) {
                LockSupport.parkNanos(POLL_NS);
                if (!patient(table, limit, by -> read(by, table, rows, again))) {
                    return false;
                }
            }
            Map<String, String[]> steady = both(wrong, again);
            if (steady != null) {
                steady.values().forEach(w -> out.mismatch(master, w[0], w[1]));
                return true;
            }
            if (System.nanoTime() - limit >= 0) {
                out.incomplete("replicas", table + ": get and scan differ, and in another row whenever they are looked at");
                return false;
            }
        }
    }

    private void read(Connection by, String table, Map<String, String> rows, Map<String, String[]> wrong) throws IOException {
        rows.clear();
        Map<String, String> scanned = new TreeMap<>();
        try (Table open = by.getTable(TableName.valueOf(table))) {
            try (ResultScanner all = open.getScanner(new Scan())) {
                // Its iterator would hide the failure in an exception of its own.
                for (Result row = all.next(); row != null; row = all.next()) {
                    scanned.put(Bytes.toString(row.getRow()), HbaseRows.shown(row));
                }
            }
            for (String row : workload.rows.of(table)) {
                Result read = open.get(new Get(HbaseRows.bytes(row)));
                String got = HbaseRows.shown(read);
                String key = HbaseRows.key(table, row);
                numbers.put(key, workload.rows.number(key, read));
                if (got != null) {
                    rows.put(row, got);
                }
            }
        }
        wrong.clear();
        for (String row : workload.rows.of(table)) {
            if (!java.util.Objects.equals(rows.get(row), scanned.get(row))) {
                String detail = table + " row " + row + ": get " + rows.get(row) + ", scan " + scanned.get(row);
                wrong.put(detail, new String[] {"get and scan differ", detail});
            }
        }
        scanned.keySet().removeAll(workload.rows.of(table));
        if (!scanned.isEmpty()) {
            String detail = table + ": " + scanned;
            wrong.put(detail, new String[] {"there are rows that nobody wrote", detail});
        }
    }

    /**
     * An operation that takes rows with it has happened to the table and to all rows, or to none of them. Only rows count whose put was answered:
     * one that was not may never have been there.
     */
    private void half(String table, String seen, Map<String, String> rows) {
        HbaseTables.Doubt doubt;
        synchronized (workload.tables.doubts) {
            doubt = workload.tables.doubts.get(table);
        }
        if (doubt == null) {
            return;
        }
        boolean done = java.util.Objects.equals(seen, doubt.after);
        List<String> there = new ArrayList<>(doubt.sure);
        there.retainAll(rows.keySet());
        if (there.size() != (done ? 0 : doubt.sure.size())) {
            out.mismatch(master, "a table operation is half done", table + " is " + seen + " and of rows " + doubt.sure + " has " + there);
        }
    }
}
