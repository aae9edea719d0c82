import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.locks.LockSupport;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.HdfsConstants;
import org.apache.hadoop.hdfs.tools.DFSAdmin;
import org.apache.hadoop.util.ToolRunner;
import warren.workload.Client;
import warren.workload.Condition;
import warren.workload.Driver;
import warren.workload.Node;
import warren.workload.Observations;
import warren.workload.Result;
import warren.workload.Runner;
import warren.workload.Session;

/**
 * HDFS' workload: CrashFuzz's steps (make folders, put, truncate, append, rename, list, read, `dfsadmin -safemode get`), then clients
 * that each write files of their own (some flushed and kept open), append, rename, delete, and read their own and each other's. A
 * session is a client that asks one NameNode first. Single operations are in {@link HdfsOperations}; contents are named by
 * {@link HdfsFiles}; what is seen at the end is in {@link HdfsObserver}.
 */
public final class HdfsWorkload extends Driver {
    private static final String STEPS = "/usr/root";
    private static final int TEXT_KEPT = 23;
    private static final int STEP_TRIES = 3;
    final HdfsFiles files = new HdfsFiles();
    final HdfsOperations operations = new HdfsOperations(files);
    /** What a command of the system said wrongly: {node, what, detail}. */
    final List<Object[]> admitted = new ArrayList<>();
    private final Map<Client, Traffic> traffic = new LinkedHashMap<>();
    final HdfsConf conf;
    private Runner run;
    /** NameNodes that have not been up since the start. */
    private final List<Node> neverUp = new ArrayList<>();
    private long served;

    public static void main(String[] args) {
        // The client's own log says nothing that the history does not.
        org.apache.log4j.Logger.getRootLogger().addAppender(new org.apache.log4j.varia.NullAppender());
        Map<String, String> namenodes = Runner.addresses(args);
        namenodes.keySet().removeIf(name -> !name.startsWith("nn"));
        Runner.main(args, new HdfsWorkload(new HdfsConf(namenodes)));
    }

    /** Files whose leases a look at the healed cluster has found to stay. */
    final Set<String> leasesTold = new HashSet<>();

    private HdfsWorkload(HdfsConf conf) {
        this.conf = conf;
    }

    /** What one traffic client remembers. */
    private static final class Traffic {
        long turn;
        long made;
        /** Own files that were closed ok, with their pieces. */
        final Deque<Object[]> closed = new ArrayDeque<>();
        /** Every name that a file of it was meant to have. The other clients read there, too. */
        final List<String> paths = new CopyOnWriteArrayList<>();
        /** The file kept open. */
        String open;
        int pieces;
    }

    @Override
    public int port() {
        return HdfsConf.RPC;
    }

    @Override
    public boolean serves(Node node) {
        return node.name.startsWith("nn");
    }

    @Override
    public Session open(Client client, Node at, long timeoutMs) throws IOException {
        Configuration of = conf.of(at.name, client.address);
        return new HdfsSession(HdfsConf.open(of, "hdfs://ns"), client.name, HdfsConf.failovers(of));
    }

    @Override
    public void setup(Runner runner) throws Exception {
        run = runner;
        for (Node node : runner.nodes("nn")) {
            if (!node.alive()) {
                neverUp.add(node);
            }
        }
        DistributedFileSystem fs = HdfsOperations.of(runner.clients.get(0)).fs;
        Condition.await(30, () -> !fs.setSafeMode(HdfsConstants.SafeModeAction.SAFEMODE_GET) && fs.getDataNodeStats(
                HdfsConstants.DatanodeReportType.LIVE).length >= alive(runner, "dn"));
        for (Client client : runner.clients) {
            traffic.put(client, new Traffic());
            fs.mkdirs(new Path("/" + client.name));
        }
        fs.mkdirs(new Path("/serve"));
    }

    private static int alive(Runner runner, String prefix) {
        int count = 0;
        for (Node node : runner.nodes(prefix)) {
            count += node.alive() ? 1 : 0;
        }
        return count;
    }

    // ---- the fixed steps

    @Override
    public void steps(Runner runner) {
        Client one = runner.extra("steps-1");
        String put = STEPS + "/fav2/file01";
        String last = STEPS + "/final";
        String text = "a sentence of which the first part stays, and this part goes";
        String kept = text.substring(0, TEXT_KEPT);
        String stamped = kept + " at " + System.nanoTime();
        byte[] stamp = stamped.substring(TEXT_KEPT).getBytes(StandardCharsets.ISO_8859_1);
        boolean good = step(runner, one, () -> operations.mkdirs(one, STEPS + "/fav1"))
                && step(runner, one, () -> operations.mkdirs(one, STEPS + "/fav2"))
                && once(runner, one, () -> operations.put(one, put, text))
                && once(runner, one, () -> operations.truncate(one, put, kept))
                && once(runner, one, () -> operations.append(one, put, stamp, stamped))
                && once(runner, one, () -> operations.rename(one, put, last, stamped));
        if (good) {
            step(runner, one, () -> operations.read(one, last));
            step(runner, one, () -> operations.list(one, STEPS));
        }
        safeMode(runner);
        one.close();
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
     * `dfsadmin -safemode get`, as an administrator would. It asks all NameNodes one after another and may fail while one of them comes
     * or goes; that it cannot be had as long as one has been away since the start, though the other one is active and answers, is an
     * answer of the system that is wrong.
     */
    private void safeMode(Runner runner) {
        List<Node> away = new ArrayList<>();
        for (Node node : neverUp) {
            if (!node.alive() && anotherServes(runner, node)) {
                away.add(node);
            }
        }
        int code;
        try {
            code = ToolRunner.run(conf.of("nn1", null), new DFSAdmin(), new String[] {"-safemode", "get"});
        } catch (Exception e) {
            code = -1;
        }
        for (Node node : away) {
            if (code != 0 && !node.alive() && anotherServes(runner, node)) {
                admitted.add(new Object[] {node, "dfsadmin -safemode get fails while the other NameNode is active",
                    "exit code " + code + ", " + node + " is down since the start"});
            }
        }
    }

    /** Whether another NameNode is active and answers, asked alone: what fails while it does not may be no more than an outage. */
    private boolean anotherServes(Runner runner, Node than) {
        for (Node node : runner.nodes("nn")) {
            String uri = "hdfs://" + node.address + ":" + HdfsConf.RPC;
            if (node == than || !node.alive()) {
                continue;
            }
            try (DistributedFileSystem alone = HdfsConf.open(conf.of(node.name, null), uri)) {
                if (HdfsObserver.state(node).equals("active") && alone.getFileStatus(new Path("/")).isDirectory()) {
                    return true;
                }
            } catch (IOException e) {
                // It does not.
            }
        }
        return false;
    }

    // ---- traffic

    /**
     * Two rounds of eight turns make a whole. In the first a file is opened and flushed in each odd turn, as a client writes one file at a time; in the
     * second it is flushed and then closed early, and the turns after that append to a closed one and write a whole one. Where the file is lost
     * to a failure the next round begins with the opening again.
     */
    @Override
    public void traffic(Client client) throws Exception {
        client.session(1000);
        Traffic mine = traffic.get(client);
        long turn = mine.turn++;
        if (HdfsOperations.of(client).out == null) {
            mine.open = null;
        }
        switch ((int) (turn % 8)) {
            case 0:
                if (mine.open == null) {
                    whole(client, mine, 1 + (int) (turn / 8 % 3));
                } else {
                    more(client, mine);
                }
                break;
            case 1:
                if (mine.open == null) {
                    keepOpen(client, mine);
                } else {
                    finish(client, mine);
                }
                break;
            case 2:
            case 6:
                readSome(client, mine);
                break;
            case 3:
                if (mine.open == null) {
                    extend(client, mine);
                } else {
                    more(client, mine);
                }
                break;
            case 4:
                move(client, mine);
                break;
            case 5:
                if (mine.open == null) {
                    whole(client, mine, 1 + (int) (turn / 8 % 3));
                } else {
                    more(client, mine);
                }
                break;
            default:
                if (mine.closed.size() > 3) {
                    Object[] oldest = mine.closed.pollFirst();
                    operations.delete(client, (String) oldest[0]);
                } else {
                    readSome(client, mine);
                }
        }
    }

    private String fresh(Client client, Traffic mine) {
        String id = "c" + client.index + "-" + mine.made++;
        String path = "/" + client.name + "/" + id;
        files.made(path, id);
        mine.paths.add(path);
        return path;
    }

    /** A file written and closed. */
    private void whole(Client client, Traffic mine, int pieces) {
        String path = fresh(client, mine);
        if (operations.create(client, path).isOk() && operations.write(client, path, 0, pieces, true).isOk()) {
            mine.closed.addLast(new Object[] {path, pieces});
        }
    }

    private void keepOpen(Client client, Traffic mine) {
        String path = fresh(client, mine);
        if (operations.create(client, path).isOk() && operations.write(client, path, 0, 1, false).isOk()) {
            mine.open = path;
            mine.pieces = 1;
        }
    }

    private void more(Client client, Traffic mine) {
        mine.pieces++;
        if (!operations.write(client, mine.open, mine.pieces - 1, mine.pieces, false).isOk()) {
            mine.open = null;
        }
    }

    private void finish(Client client, Traffic mine) {
        int pieces = mine.pieces + 1;
        if (operations.write(client, mine.open, mine.pieces, pieces, true).isOk()) {
            mine.closed.addLast(new Object[] {mine.open, pieces});
        }
        mine.open = null;
    }

    private void extend(Client client, Traffic mine) {
        Object[] newest = mine.closed.pollLast();
        if (newest == null) {
            readSome(client, mine);
            return;
        }
        String path = (String) newest[0];
        int pieces = (Integer) newest[1];
        String id = files.id(path);
        String value = files.milestone(id, pieces + 1);
        if (operations.append(client, path, HdfsFiles.piece(id, pieces), value).isOk()) {
            mine.closed.addLast(new Object[] {path, pieces + 1});
        }
    }

    private void move(Client client, Traffic mine) {
        Object[] oldest = mine.closed.pollFirst();
        if (oldest == null) {
            readSome(client, mine);
            return;
        }
        String from = (String) oldest[0];
        String to = "/" + client.name + "/m" + client.index + "-" + mine.made++;
        files.renamed(from, to);
        mine.paths.add(to);
        if (operations.rename(client, from, to, files.id(from) + ":" + oldest[1]).isOk()) {
            mine.closed.addLast(new Object[] {to, oldest[1]});
        }
    }

    private void readSome(Client client, Traffic mine) {
        Client whose = run.clients.get(client.random.nextInt(run.clients.size()));
        List<String> paths = traffic.get(whose).paths;
        int made = paths.size();
        operations.read(client, made == 0 ? first(whose) : paths.get(client.random.nextInt(made)));
    }

    private static String first(Client whose) {
        return "/" + whose.name + "/c" + whose.index + "-0";
    }

    @Override
    public void warm(Client client) throws Exception {
        client.session(1000);
        String id = "warm-" + client.index;
        String path = "/" + client.name + "/" + id;
        files.made(path, id);
        must(operations.create(client, path));
        must(operations.write(client, path, 0, 1, false));
        must(operations.write(client, path, 1, 2, true));
        must(operations.read(client, path));
        must(operations.delete(client, path));
    }

    private static void must(Result result) throws IOException {
        if (!result.isOk()) {
            throw new IOException("warm-up: " + result.error());
        }
    }

    @Override
    public void probe(Client client) {
        for (Client whose : run.clients) {
            operations.read(client, first(whose));
        }
    }

    @Override
    public void serve(Client client) throws Exception {
        String id;
        synchronized (this) {
            id = "s" + ++served;
        }
        String path = "/serve/" + id;
        files.made(path, id);
        Result made = operations.create(client, path);
        made = made.isOk() ? operations.write(client, path, 0, 1, true) : made;
        if (!made.isOk()) {
            throw new IOException("write: " + made.error());
        }
        Result seen = operations.read(client, path);
        if (!seen.isOk() || !(id + ":1").equals(seen.value())) {
            throw new IOException("read: " + (seen.isOk() ? "saw " + seen.value() : seen.error()));
        }
    }

    @Override
    public boolean observe(Runner runner, Observations out, boolean durable) throws Exception {
        for (Object[] said : admitted) {
            out.mismatch((Node) said[0], (String) said[1], (String) said[2]);
        }
        admitted.clear();
        return new HdfsObserver(runner, out, this, durable).observe();
    }
}
