import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.apache.hadoop.hbase.ClusterMetrics;
import org.apache.hadoop.hbase.NamespaceDescriptor;
import org.apache.hadoop.hbase.ServerName;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.util.Bytes;
import warren.workload.Client;
import warren.workload.Condition;
import warren.workload.Driver;
import warren.workload.Node;
import warren.workload.Observations;
import warren.workload.Result;
import warren.workload.Runner;
import warren.workload.Session;
import warren.workload.Sockets;

/**
 * HBase's workload: CrashFuzz's steps on one table (create, put, add a family, put, delete the family, delete a row, read, disable,
 * truncate, disable, delete) beside a client that writes and reads another table, then clients that each put, get, scan and delete rows
 * of their own. A session is a connection of its own, opened when one region server takes connections. Operations on rows are in
 * {@link HbaseOperations}, on tables in {@link HbaseTables}; what is seen at the end is in {@link HbaseObserver}.
 */
public final class HbaseWorkload extends Driver {
    static final String LIVE = "live";
    private static final String FAMILY = "f";
    private static final String STEPS = "FAVMyInfo";
    private static final String SERVE = "serve";
    /** Whose rows are written beside the steps, and which nobody administers. */
    static final List<String> TRAFFIC = Collections.unmodifiableList(Arrays.asList(LIVE, SERVE));
    /** Rows begin with a digit; the tables' regions are split between them. */
    private static final byte[][] THREE = {HbaseRows.bytes("3"), HbaseRows.bytes("6")};
    /** A row in each of these regions. */
    private static final String[] IN_EACH = {"1-", "4-", "8-"};
    private static final byte[][] TWO = {HbaseRows.bytes("5")};
    private static final int ROWS = 10;
    private static final int STEP_TRIES = 4;
    private static final long ADMIN_MS = 12_000;
    /** Shorter than a session: a call that is not answered then is made again before another master leads. */
    private static final long TRUNCATE_MS = 3_000;
    private static final long POLL_NS = 5_000_000L;
    private static final long SETTLE_NS = 100_000_000L;
    final HbaseConf conf;
    final HbaseRows rows = new HbaseRows();
    final HbaseOperations operations = new HbaseOperations(rows);
    final HbaseTables tables = new HbaseTables(rows);
    /** Disabled tables that the observer has enabled, and not disabled again yet. */
    final Set<String> leftEnabled = ConcurrentHashMap.newKeySet();
    /** What an answer of the system said wrongly: {node, what, detail}. */
    final List<Object[]> admitted = Collections.synchronizedList(new ArrayList<>());
    /** What is no failure, and a reader may want to count. */
    private final List<String> notes = Collections.synchronizedList(new ArrayList<>());
    private final Map<String, Traffic> traffic = new LinkedHashMap<>();
    private Runner run;
    private long served;

    public static void main(String[] args) {
        // The client's own log says nothing that the history does not.
        org.apache.log4j.Logger.getRootLogger().addAppender(new org.apache.log4j.varia.NullAppender());
        Runner.main(args, new HbaseWorkload(new HbaseConf(Runner.addresses(args))));
    }

    private HbaseWorkload(HbaseConf conf) {
        this.conf = conf;
    }

    /** What one client that makes traffic remembers. */
    private static final class Traffic {
        long turn;
        long made;
        /** A row that stands until its turn to be deleted. */
        String passing;
    }

    @Override
    public int port() {
        return HbaseConf.REGION_PORT;
    }

    @Override
    public boolean serves(Node node) {
        return node.name.startsWith("rs");
    }

    @Override
    public Session open(Client client, Node at, long timeoutMs) throws IOException {
        Sockets.close(Sockets.connect(client.address, at.address, port(), (int) Math.min(timeoutMs, 2000), 2000));
        return new HbaseSession(conf.of(ADMIN_MS), client.name);
    }

    @Override
    public void setup(Runner runner) throws Exception {
        run = runner;
        Client one = runner.clients.get(0);
        // Short waits: a question that meets a master before it is one is asked again.
        Condition.await(40, () -> HbaseSession.of(one).admin(admin -> {
            ClusterMetrics now = admin.getClusterMetrics();
            return all(now.getLiveServerMetrics().keySet()) && now.getRegionStatesInTransition().isEmpty() && serves(admin);
        }));
        for (Client client : runner.clients) {
            traffic.put(client.name, new Traffic());
        }
        if (!tables.create(one, LIVE, THREE, FAMILY).isOk() || !tables.create(one, SERVE, THREE, FAMILY).isOk()) {
            throw new IOException("the tables of the traffic could not be made");
        }
        HbaseSession.of(one).admin(admin -> admin.balancerSwitch(false, true));
    }

    /** Whether each living region server is among these; one that died in its start may be there beside them. */
    private boolean all(Set<ServerName> known) {
        for (Node node : run.nodes("rs")) {
            if (node.alive() && known.stream().noneMatch(s -> s.getHostname().equals(node.address))) {
                return false;
            }
        }
        return true;
    }

    /** Which region of a table of the traffic a row is in, from 0. */
    static int region(String row) {
        int before = 0;
        for (byte[] split : THREE) {
            before += Bytes.compareTo(HbaseRows.bytes(row), split) >= 0 ? 1 : 0;
        }
        return before;
    }

    private static boolean serves(Admin admin) throws IOException {
        for (NamespaceDescriptor namespace : admin.listNamespaceDescriptors()) {
            if (namespace.getName().equals("default")) {
                return true;
            }
        }
        return false;
    }

    // ---- the fixed steps

    @Override
    public void steps(Runner runner) throws InterruptedException {
        Client one = runner.extra("steps-1");
        Client two = runner.extra("steps-2");
        traffic.put(two.name, new Traffic());
        AtomicBoolean over = new AtomicBoolean();
        AtomicReference<Error> broke = new AtomicReference<>();
        Thread beside = new Thread(() -> {
            while (!over.get() && !runner.stepsOver()) {
                try {
                    traffic(two);
                } catch (Exception e) {
                    // No session: nothing was asked of the system.
                } catch (Error e) {
                    broke.set(e);
                    return;
                }
                LockSupport.parkNanos(20_000_000L);
            }
        }, "steps-beside");
        beside.setDaemon(true);
        beside.start();
        try {
            tableSteps(runner, one);
        } finally {
            over.set(true);
            // Its operations end by themselves; the runner drops their session if the run is over.
            beside.join(5000);
            one.close();
            if (beside.isAlive()) {
                // Not closed under it: nothing of what it waits for is known to have ended.
                two.drop();
            } else {
                two.close();
            }
        }
        Error error = broke.get();
        if (error != null) {
            // Of this program, not of the system: the steps had nothing beside them from then on, and the runner says so.
            throw error;
        }
    }

    private void tableSteps(Runner runner, Client one) {
        TableName name = TableName.valueOf(STEPS);
        String plain = HbaseTables.state(true, 2, "Personal");
        String wide = HbaseTables.state(true, 2, "Office", "Personal");
        String off = HbaseTables.state(false, 2, "Personal");
        if (!reach(runner, one, plain, () -> tables.create(one, STEPS, TWO, "Personal"))) {
            return;
        }
        boolean mary = firstTry(runner, one, () -> operations.put(one, STEPS, "0", "Personal", "Mary"));
        if (!reach(runner, one, wide, () -> tables.alter(one, STEPS, wide, none(),
                admin -> admin.addColumnFamily(name, HbaseTables.family("Office"))))) {
            return;
        }
        boolean alice = firstTry(runner, one, () -> operations.put(one, STEPS, "0", "Personal", "Alice"));
        boolean world = step(runner, one, () -> operations.put(one, STEPS, "1", "Office", "World"));
        boolean eve = step(runner, one, () -> operations.put(one, STEPS, "7", "Personal", "Eve"));
        if (!reach(runner, one, plain, () -> tables.alter(one, STEPS, plain, world ? Arrays.asList("1") : none(),
                admin -> admin.deleteColumnFamily(name, HbaseRows.bytes("Office"))))) {
            return;
        }
        step(runner, one, () -> operations.delete(one, STEPS, "1"));
        step(runner, one, () -> operations.get(one, STEPS, "0"));
        step(runner, one, () -> operations.scan(one, STEPS, "1"));
        if (mary && alice) {
            versions(runner, one);
        }
        HbaseAnswers truncated = new HbaseAnswers();
        List<String> sure = new ArrayList<>();
        if (mary || alice) {
            sure.add("0");
        }
        if (eve) {
            sure.add("7");
        }
        if (!truncate(runner, one, plain, off, sure, truncated)) {
            return;
        }
        step(runner, one, () -> operations.scan(one, STEPS, "0"));
        boolean bob = step(runner, one, () -> operations.put(one, STEPS, "2", "Personal", "Bob"));
        HbaseAnswers disabled = new HbaseAnswers();
        HbaseAnswers deleted = new HbaseAnswers();
        if (disable(runner, one, off, disabled)) {
            reach(runner, one, null, () -> deleted.add(tables.delete(one, STEPS, Arrays.asList("2"), bob ? Arrays.asList("2") : none())));
        }
        if (HbaseAnswers.wronglyRefused(truncated, disabled, deleted)) {
            refused(runner, "delete", disabled, deleted);
        }
    }

    private boolean disable(Runner runner, Client one, String off, HbaseAnswers disabled) {
        TableName name = TableName.valueOf(STEPS);
        return reach(runner, one, off, () -> disabled.add(tables.alter(one, STEPS, off, none(), admin -> admin.disableTable(name))));
    }

    /**
     * As CrashFuzz's client: a truncate that was taken up and does not end soon is asked for again, without a look at the table. (HBASE-26370:
     * that it is not disabled says the next master, which has finished the first one.)
     */
    private boolean truncate(Runner runner, Client one, String plain, String off, List<String> sure, HbaseAnswers truncated) {
        List<String> rowsThere = Arrays.asList("0", "7");
        HbaseAnswers disabled = new HbaseAnswers();
        boolean done = disable(runner, one, off, disabled) && reach(runner, one, plain, () -> {
            Result first = truncated.add(tables.truncate(one, STEPS, plain, rowsThere, sure, admin -> truncateIn(runner, TRUNCATE_MS)));
            if (first.isOk() || runner.stepsOver()) {
                return first;
            }
            return truncated.add(tables.truncate(one, STEPS, plain, rowsThere, sure, admin -> truncateIn(runner, ADMIN_MS)));
        });
        if (HbaseAnswers.wronglyRefused(disabled, truncated)) {
            refused(runner, "truncate", disabled, truncated);
        }
        if (done && HbaseAnswers.misleading(truncated)) {
            step(runner, one, () -> {
                if (operations.isEmpty(one, STEPS)) {
                    notes.add("a truncate was made, and its caller was told only that the table is not disabled: " + truncated);
                }
                return Result.ok();
            });
        }
        return done;
    }

    /**
     * Asks until a master takes it up, the next one if need be, and then waits so long for its end. Given up with the steps: what asked on after
     * them would change the table under the observer.
     */
    private void truncateIn(Runner runner, long ms) throws Exception {
        try (Connection lasting = ConnectionFactory.createConnection(conf.lasting(ADMIN_MS)); Admin admin = lasting.getAdmin()) {
            AtomicLong taken = new AtomicLong();
            FutureTask<Void> made = new FutureTask<>(() -> {
                Future<Void> end = admin.truncateTableAsync(TableName.valueOf(STEPS), true);
                taken.set(System.nanoTime());
                return end.get();
            });
            Thread asking = new Thread(made, "truncate");
            asking.setDaemon(true);
            asking.start();
            try {
                while (!made.isDone()) {
                    if (runner.stepsOver()) {
                        throw new IOException("given up with the steps");
                    }
                    if (taken.get() != 0 && System.nanoTime() - taken.get() > ms * 1_000_000L) {
                        throw new TimeoutException("taken up, and not ended after " + ms + " ms");
                    }
                    LockSupport.parkNanos(POLL_NS);
                }
                made.get();
            } finally {
                asking.interrupt();
            }
        }
    }

    private void refused(Runner runner, String what, HbaseAnswers disabled, HbaseAnswers answers) {
        admitted.add(new Object[] {runner.nodes.get(0), what + " is refused as the table is not disabled, and it is",
            "disable " + disabled + ", " + what + " " + answers});
    }

    private static List<String> none() {
        return Collections.emptyList();
    }

    /** Row 0 has been put twice and nothing else was done to its family: both versions are there, the newer one first. */
    private void versions(Runner runner, Client one) {
        step(runner, one, () -> {
            List<String> seen = operations.versions(one, STEPS, "0");
            if (!seen.equals(Arrays.asList("Alice", "Mary"))) {
                admitted.add(new Object[] {runner.nodes.get(0), "versions of a row are not those that were put", seen.toString()});
            }
            return Result.ok();
        });
    }

    private interface Attempt {
        Result make() throws Exception;
    }

    /** A step that may be made again. @return whether it was ok in the end */
    private static boolean step(Runner runner, Client client, Attempt attempt) {
        for (int tries = 0; tries < STEP_TRIES && !runner.stepsOver(); tries++) {
            if (once(runner, client, attempt)) {
                return true;
            }
        }
        return false;
    }

    /** As {@link #step}. @return whether it was ok at once, so that it was done once */
    private static boolean firstTry(Runner runner, Client client, Attempt attempt) {
        boolean first = once(runner, client, attempt);
        if (!first) {
            step(runner, client, attempt);
        }
        return first;
    }

    private static boolean once(Runner runner, Client client, Attempt attempt) {
        while (!runner.stepsOver()) {
            try {
                client.session(1000);
                return attempt.make().isOk();
            } catch (Exception e) {
                LockSupport.parkNanos(10_000_000L);
            }
        }
        return false;
    }

    /**
     * A table operation, made until the table is as wanted. One whose outcome is not known may still be under way: the table is looked at
     * for a while before it is asked for again.
     */
    private boolean reach(Runner runner, Client client, String wanted, Attempt attempt) {
        for (int tries = 0; tries < STEP_TRIES && !runner.stepsOver(); tries++) {
            if (once(runner, client, attempt)) {
                return true;
            }
            for (int looks = 0; looks < 10 && !runner.stepsOver(); looks++) {
                Result[] seen = new Result[1];
                if (once(runner, client, () -> seen[0] = tables.look(client, STEPS))
                        && java.util.Objects.equals(seen[0].value(), wanted)) {
                    tables.settled(STEPS);
                    return true;
                }
                LockSupport.parkNanos(SETTLE_NS);
            }
        }
        return false;
    }

    // ---- traffic

    @Override
    public void traffic(Client client) throws Exception {
        client.session(1000);
        Traffic mine = traffic.get(client.name);
        long turn = mine.turn++;
        switch ((int) (turn % 8)) {
            case 0:
            case 2:
            case 4:
                String row = row(client.index, (int) (mine.made % ROWS));
                operations.put(client, LIVE, row, FAMILY, "c" + client.index + "-" + mine.made++);
                break;
            case 1:
                operations.get(client, LIVE, row(whose(client), client.random.nextInt(ROWS)));
                break;
            case 3:
                operations.scan(client, LIVE, row(whose(client), client.random.nextInt(ROWS)));
                break;
            case 5:
                if (mine.passing == null) {
                    String made = mine.made % ROWS + "-p" + client.index + "-" + mine.made++;
                    operations.put(client, LIVE, made, FAMILY, made);
                    mine.passing = made;
                } else {
                    operations.delete(client, LIVE, mine.passing);
                    mine.passing = null;
                }
                break;
            case 6:
                operations.scan(client, LIVE, row(client.index, client.random.nextInt(ROWS)));
                break;
            default:
                operations.get(client, LIVE, row(client.index, client.random.nextInt(ROWS)));
        }
    }

    private int whose(Client client) {
        return run.clients.get(client.random.nextInt(run.clients.size())).index;
    }

    private static String row(int client, int n) {
        return n + "-c" + client;
    }

    @Override
    public void warm(Client client) throws Exception {
        client.session(1000);
        String row = "w" + client.index;
        must(operations.put(client, LIVE, row, FAMILY, row));
        must(operations.get(client, LIVE, row));
        must(operations.scan(client, LIVE, row));
        must(operations.delete(client, LIVE, row));
    }

    private static void must(Result result) throws IOException {
        if (!result.isOk()) {
            throw new IOException("warm-up: " + result.error());
        }
    }

    @Override
    public void probe(Client client) {
        for (Client whose : run.clients) {
            operations.get(client, LIVE, row(whose.index, 0));
        }
    }

    /**
     * In each region of a table a row is written and read: the regions of one dead server come up together, and only who asks in all of
     * them sees that they did not. Whoever asks first in a phase does so in a table, too, that is made for it and deleted.
     */
    @Override
    public void serve(Client client) throws Exception {
        String id;
        synchronized (this) {
            id = "s" + ++served;
        }
        for (String region : IN_EACH) {
            served(client, region + id);
        }
        if (client.name.startsWith("serve-") && client.server() == first()) {
            ownTable(client, "serve-" + id, id);
        }
    }

    /** Not in the history, as the table takes its row with it: what was put and is not read is told here. */
    private void ownTable(Client client, String table, String row) throws Exception {
        TableName name = TableName.valueOf(table);
        HbaseSession.of(client).admin(admin -> {
            admin.createTable(TableDescriptorBuilder.newBuilder(name).setColumnFamily(HbaseTables.family(FAMILY)).build());
            try (Table open = HbaseSession.of(client).connection.getTable(name)) {
                byte[] at = HbaseRows.bytes(row);
                open.put(new Put(at).addColumn(HbaseRows.bytes(FAMILY), HbaseRows.QUALIFIER, HbaseRows.value(row)));
                String seen = HbaseRows.shown(open.get(new Get(at)));
                if (!row.equals(seen)) {
                    // The next try has another table, so that it would hide the loss.
                    admitted.add(new Object[] {run.nodes.get(0), "a row of a new table is not the one that was put", table + " row " + row + ": saw " + seen});
                    throw new IOException("read in a new table: saw " + seen);
                }
            }
            admin.disableTable(name);
            admin.deleteTable(name);
            return null;
        });
    }

    private Node first() {
        for (Node node : run.nodes("rs")) {
            if (node.alive()) {
                return node;
            }
        }
        return null;
    }

    private void served(Client client, String id) throws IOException {
        Result made = operations.put(client, SERVE, id, FAMILY, id);
        if (!made.isOk()) {
            throw new IOException("write: " + made.error());
        }
        Result seen = operations.get(client, SERVE, id);
        if (!seen.isOk() || !id.equals(seen.value())) {
            throw new IOException("read: " + (seen.isOk() ? "saw " + seen.value() : seen.error()));
        }
    }

    @Override
    public boolean observe(Runner runner, Observations out, boolean durable) throws Exception {
        synchronized (admitted) {
            for (Object[] said : admitted) {
                out.mismatch((Node) said[0], (String) said[1], (String) said[2]);
            }
            admitted.clear();
        }
        synchronized (notes) {
            notes.forEach(out::note);
            notes.clear();
        }
        return new HbaseObserver(runner, out, this, durable).observe();
    }
}
