import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.HdfsConstants;
import org.apache.hadoop.hdfs.tools.DFSAdmin;
import org.apache.hadoop.util.ToolRunner;
import warren.workload.Client;
import warren.workload.Driver;
import warren.workload.Node;
import warren.workload.Observations;
import warren.workload.Operation;
import warren.workload.Result;
import warren.workload.Runner;
import warren.workload.Session;

/**
 * HDFS' workload: CrashFuzz's steps (make folders, put, truncate, append, rename, list, read, `dfsadmin -safemode get`), then clients
 * that each write files of their own (some flushed and kept open), append, rename, delete, and read their own and each other's. A
 * session is a client that asks one NameNode first. Contents are named by {@link HdfsFiles}; what is seen at the end is in
 * {@link HdfsObserver}.
 */
public final class HdfsWorkload extends Driver {
    private static final String STEPS = "/usr/root";
    private static final int TEXT_KEPT = 23;
    private static final int STEP_TRIES = 3;
    final HdfsFiles files = new HdfsFiles();
    /** Renames whose outcome is not known: {from, to}. */
    final List<String[]> doubtful = new ArrayList<>();
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
        Map<String, String> namenodes = new LinkedHashMap<>();
        for (String arg : Arrays.asList(args).subList(Math.min(3, args.length), args.length)) {
            if (arg.startsWith("nn")) {
                namenodes.put(arg.substring(0, arg.indexOf('=')), arg.substring(arg.indexOf('=') + 1));
            }
        }
        Runner.main(args, new HdfsWorkload(new HdfsConf(namenodes)));
    }

    private HdfsWorkload(HdfsConf conf) {
        this.conf = conf;
    }

    /** What one traffic client remembers. */
    private static final class Traffic {
        long turn;
        long made;
        /** Own files that were closed ok, with their pieces. */
        final Deque<Object[]> closed = new ArrayDeque<>();
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
        return new HdfsSession(HdfsConf.open(conf.of(at.name, client.address), "hdfs://ns"), client.name);
    }

    @Override
    public void setup(Runner runner) throws Exception {
        run = runner;
        for (Node node : HdfsConf.nodes(runner, "nn")) {
            if (!node.alive()) {
                neverUp.add(node);
            }
        }
        DistributedFileSystem fs = of(runner.clients.get(0)).fs;
        await(30, () -> !fs.setSafeMode(HdfsConstants.SafeModeAction.SAFEMODE_GET) && fs.getDataNodeStats(
                HdfsConstants.DatanodeReportType.LIVE).length >= alive(runner, "dn"));
        for (Client client : runner.clients) {
            traffic.put(client, new Traffic());
            fs.mkdirs(new Path("/" + client.name));
        }
        fs.mkdirs(new Path("/serve"));
    }

    private static int alive(Runner runner, String prefix) {
        int count = 0;
        for (Node node : HdfsConf.nodes(runner, prefix)) {
            count += node.alive() ? 1 : 0;
        }
        return count;
    }

    /** A condition that may throw while it does not hold. */
    interface Condition {
        boolean holds() throws Exception;
    }

    static void await(int seconds, Condition condition) throws Exception {
        long limit = System.nanoTime() + seconds * 1_000_000_000L;
        while (true) {
            Exception why = null;
            try {
                if (condition.holds()) {
                    return;
                }
            } catch (IOException e) {
                why = e;
            }
            if (System.nanoTime() - limit >= 0) {
                throw new IOException("not so after " + seconds + " s" + (why == null ? "" : ": " + why));
            }
            // Not a park, which an interrupt makes a busy loop.
            Thread.sleep(20);
        }
    }

    static HdfsSession of(Client client) {
        return (HdfsSession) client.session();
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
        boolean good = step(runner, one, () -> mkdirs(one, STEPS + "/fav1"))
                && step(runner, one, () -> mkdirs(one, STEPS + "/fav2"))
                && once(runner, one, () -> put(one, put, text))
                && once(runner, one, () -> truncate(one, put, kept))
                && once(runner, one, () -> append(one, put, stamped.substring(TEXT_KEPT), stamped))
                && once(runner, one, () -> rename(one, put, last, stamped));
        if (good) {
            step(runner, one, () -> read(one, last));
            step(runner, one, () -> list(one));
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
     * or goes; that it cannot be had as long as one has been away since the start is an answer of the system that is wrong.
     */
    private void safeMode(Runner runner) {
        int code;
        try {
            code = ToolRunner.run(conf.of("nn1", null), new DFSAdmin(), new String[] {"-safemode", "get"});
        } catch (Exception e) {
            code = -1;
        }
        for (Node node : neverUp) {
            if (code != 0 && !node.alive()) {
                admitted.add(new Object[] {node, "dfsadmin -safemode get fails while the other NameNode is active",
                    "exit code " + code + ", " + node + " is down since the start"});
            }
        }
    }

    // ---- traffic

    @Override
    public void traffic(Client client) throws Exception {
        client.session(1000);
        Traffic mine = traffic.get(client);
        long turn = mine.turn++;
        if (of(client).out == null) {
            mine.open = null;
        }
        switch ((int) (turn % 8)) {
            case 0:
                whole(client, mine, 1 + (int) (turn / 8 % 3));
                break;
            case 1:
                if (mine.open == null) {
                    keepOpen(client, mine);
                } else {
                    more(client, mine);
                }
                break;
            case 2:
            case 6:
                readSome(client, mine);
                break;
            case 3:
                extend(client, mine);
                break;
            case 4:
                move(client, mine);
                break;
            case 5:
                if (mine.open != null) {
                    finish(client, mine);
                } else {
                    readSome(client, mine);
                }
                break;
            default:
                if (mine.closed.size() > 3) {
                    Object[] oldest = mine.closed.pollFirst();
                    delete(client, (String) oldest[0]);
                } else {
                    readSome(client, mine);
                }
        }
    }

    private String fresh(Client client, Traffic mine) {
        String id = "c" + client.index + "-" + mine.made++;
        String path = "/" + client.name + "/" + id;
        files.made(path, id);
        return path;
    }

    /** A file written and closed. */
    private void whole(Client client, Traffic mine, int pieces) {
        String path = fresh(client, mine);
        if (create(client, path).isOk() && write(client, path, 0, pieces, true).isOk()) {
            mine.closed.addLast(new Object[] {path, pieces});
        }
    }

    private void keepOpen(Client client, Traffic mine) {
        String path = fresh(client, mine);
        if (create(client, path).isOk() && write(client, path, 0, 1, false).isOk()) {
            mine.open = path;
            mine.pieces = 1;
        }
    }

    private void more(Client client, Traffic mine) {
        mine.pieces++;
        if (!write(client, mine.open, mine.pieces - 1, mine.pieces, false).isOk()) {
            mine.open = null;
        }
    }

    private void finish(Client client, Traffic mine) {
        int pieces = mine.pieces + 1;
        if (write(client, mine.open, mine.pieces, pieces, true).isOk()) {
            mine.closed.addLast(new Object[] {mine.open, pieces});
        }
        mine.open = null;
    }

    private void extend(Client client, Traffic mine) {
        // A client writes one file at a time.
        Object[] newest = mine.open == null ? mine.closed.pollLast() : null;
        if (newest == null) {
            readSome(client, mine);
            return;
        }
        String path = (String) newest[0];
        int pieces = (Integer) newest[1];
        String id = files.id(path);
        String value = files.milestone(id, pieces + 1);
        Result result = client.run(Operation.of("write", path).value(value), () -> of(client).call(() -> {
            try (FSDataOutputStream out = of(client).fs.append(new Path(path))) {
                out.write(HdfsFiles.piece(id, pieces));
            }
            return Result.ok();
        }));
        if (result.isOk()) {
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
        if (rename(client, from, to, files.id(from) + ":" + oldest[1]).isOk()) {
            mine.closed.addLast(new Object[] {to, oldest[1]});
        }
    }

    private void readSome(Client client, Traffic mine) {
        Client whose = run.clients.get(client.random.nextInt(run.clients.size()));
        Traffic theirs = traffic.get(whose);
        long n = theirs.made == 0 ? 0 : client.random.nextInt((int) Math.min(theirs.made, Integer.MAX_VALUE));
        read(client, "/" + whose.name + "/c" + whose.index + "-" + n);
    }

    @Override
    public void warm(Client client) throws Exception {
        client.session(1000);
        String id = "warm-" + client.index;
        String path = "/" + client.name + "/" + id;
        files.made(path, id);
        must(create(client, path));
        must(write(client, path, 0, 1, false));
        must(write(client, path, 1, 2, true));
        must(read(client, path));
        must(delete(client, path));
    }

    private static void must(Result result) throws IOException {
        if (!result.isOk()) {
            throw new IOException("warm-up: " + result.error());
        }
    }

    @Override
    public void probe(Client client) {
        for (Client whose : run.clients) {
            read(client, "/" + whose.name + "/c" + whose.index + "-0");
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
        Result made = create(client, path);
        made = made.isOk() ? write(client, path, 0, 1, true) : made;
        if (!made.isOk()) {
            throw new IOException("write: " + made.error());
        }
        Result seen = read(client, path);
        if (!seen.isOk() || !(id + ":1").equals(seen.value())) {
            throw new IOException("read: " + (seen.isOk() ? "saw " + seen.value() : seen.error()));
        }
    }

    // ---- operations

    private static Result mkdirs(Client client, String path) throws Exception {
        // A folder has no content to judge, so it is in no history.
        boolean made = of(client).call(() -> of(client).fs.mkdirs(new Path(path)));
        return made ? Result.ok() : Result.unknown("not made");
    }

    /** Makes an empty file and leaves it open. */
    private Result create(Client client, String path) {
        String value = path.startsWith(HdfsFiles.PLAIN) ? "" : files.id(path) + ":0";
        return client.run(Operation.of("create", path).value(value), () -> of(client).call(() -> {
            HdfsSession session = of(client);
            session.out = session.fs.create(new Path(path), false);
            return Result.ok();
        }));
    }

    /** Writes pieces into the open file and flushes or closes it. */
    private Result write(Client client, String path, int from, int to, boolean close) {
        String id = files.id(path);
        return client.run(Operation.of("write", path).value(files.milestone(id, to)), () -> of(client).call(() -> {
            for (int n = from; n < to; n++) {
                of(client).out.write(HdfsFiles.piece(id, n));
            }
            return flushed(of(client), close);
        }));
    }

    /** On any failure the file is no longer ours to write: what became of it is for the lease's recovery. */
    private static Result flushed(HdfsSession session, boolean close) throws IOException {
        FSDataOutputStream out = session.out;
        session.out = null;
        if (close) {
            out.close();
        } else {
            out.hflush();
            session.out = out;
        }
        return Result.ok();
    }

    private Result put(Client client, String path, String text) {
        Result made = create(client, path);
        return !made.isOk() ? made : client.run(Operation.of("write", path).value(text), () -> of(client).call(() -> {
            of(client).out.write(text.getBytes(StandardCharsets.ISO_8859_1));
            return flushed(of(client), true);
        }));
    }

    private static Result truncate(Client client, String path, String kept) {
        return client.run(Operation.of("write", path).value(kept), () -> of(client).call(() -> {
            DistributedFileSystem fs = of(client).fs;
            // False: the last block is still being cut.
            if (!fs.truncate(new Path(path), kept.length())) {
                await(3, () -> fs.isFileClosed(new Path(path)));
            }
            return Result.ok();
        }));
    }

    private static Result append(Client client, String path, String more, String all) {
        return client.run(Operation.of("write", path).value(all), () -> of(client).call(() -> {
            try (FSDataOutputStream out = of(client).fs.append(new Path(path))) {
                out.write(more.getBytes(StandardCharsets.ISO_8859_1));
            }
            return Result.ok();
        }));
    }

    /** In the history the old name goes and the new one comes, while one call is made. */
    private Result rename(Client client, String from, String to, String value) {
        Result[] both = new Result[1];
        client.run(Operation.of("delete", from), () -> {
            both[0] = client.run(Operation.of("create", to).value(value), () -> of(client).call(() -> {
                boolean done = of(client).fs.rename(new Path(from), new Path(to));
                return done ? Result.ok() : Result.unknown("not renamed");
            }));
            return both[0].isOk() ? Result.ok() : Result.unknown(both[0].error());
        });
        if (!both[0].isOk()) {
            synchronized (doubtful) {
                doubtful.add(new String[] {from, to});
            }
        }
        return both[0];
    }

    private static Result delete(Client client, String path) {
        return client.run(Operation.of("delete", path), () -> of(client).call(() -> {
            boolean done = of(client).fs.delete(new Path(path), false);
            return done ? Result.ok() : Result.unknown("not there");
        }));
    }

    private Result read(Client client, String path) {
        return client.run(Operation.of("read", path), () -> of(client).call(() -> {
            byte[] content;
            try {
                content = HdfsSession.read(of(client).fs, path);
            } catch (FileNotFoundException e) {
                return Result.ok();
            }
            boolean moving = !path.startsWith(HdfsFiles.PLAIN) && HdfsFiles.between(files.id(path), content);
            return moving ? Result.unknown("read beside its writer") : Result.ok().value(files.name(path, content));
        }));
    }

    /** After the rename there is one file below the folder. */
    private Result list(Client client) throws Exception {
        List<String> found = of(client).call(() -> {
            List<String> names = new ArrayList<>();
            RemoteIterator<LocatedFileStatus> all = of(client).fs.listFiles(new Path(STEPS), true);
            while (all.hasNext()) {
                FileStatus file = all.next();
                names.add(file.getPath().toUri().getPath());
            }
            return names;
        });
        // A deposed NameNode may still answer with what was before, so a short list is no fault yet.
        return found.size() == 1 ? Result.ok() : Result.unknown("found " + found);
    }

    @Override
    public boolean observe(Runner runner, Observations out, boolean durable) throws Exception {
        for (Object[] said : admitted) {
            out.mismatch((Node) said[0], (String) said[1], (String) said[2]);
        }
        admitted.clear();
        return new HdfsObserver(runner, out, this).observe();
    }
}
