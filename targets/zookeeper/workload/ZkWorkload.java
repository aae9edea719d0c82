import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.locks.LockSupport;
import warren.workload.Client;
import warren.workload.Driver;
import warren.workload.Node;
import warren.workload.Observations;
import warren.workload.Operation;
import warren.workload.Prober;
import warren.workload.Result;
import warren.workload.Runner;
import warren.workload.Session;

/**
 * ZooKeeper's workload: CrashFuzz's steps on /bug, /delete and /eph, then clients on different servers that write (one writer per
 * counter, one key that all compare and set, ephemerals, fresh nodes), read and delete. Session end, not connection end, bounds
 * what an unknown operation can still do. What is seen at the end is in {@link ZkObserver}.
 */
public final class ZkWorkload extends Driver {
    static final int PORT = 2181;
    private static final int SESSION_MS = (int) Runner.number("session_ms", 4000);
    /** An answer that takes longer than this counts as lost; ZooKeeper's own client gives a silent server as long. */
    private static final int ANSWER_MS = SESSION_MS * 2 / 3;
    private static final int STEP_TRIES = 5;
    /** Idle sessions that go on at a restarted server, where the target is one that asks for it (../zookeeper-moved). */
    private static final int IDLE = (int) Runner.number("idle_sessions", 0);
    private final Set<ZkSession> sessions = Collections.synchronizedSet(
            Collections.newSetFromMap(new WeakHashMap<ZkSession, Boolean>()));
    private final Map<Client, Traffic> traffic = new LinkedHashMap<>();
    /** Opened before GO and silent since; those that nobody has taken up yet. */
    private final Deque<ZkSession> idle = new ConcurrentLinkedDeque<>();
    private long served;

    public static void main(String[] args) {
        ZkWorkload workload = new ZkWorkload();
        Thread pinger = new Thread(workload::ping, "pinger");
        pinger.setDaemon(true);
        pinger.start();
        Runner.main(args, workload);
    }

    private void ping() {
        while (true) {
            LockSupport.parkNanos(SESSION_MS * 1_000_000L / 8);
            ZkSession[] open;
            synchronized (sessions) {
                open = sessions.toArray(new ZkSession[0]);
            }
            for (ZkSession session : open) {
                session.ping(SESSION_MS / 4);
            }
        }
    }

    /** What one traffic client remembers. */
    private static final class Traffic {
        long counter;
        long fresh;
        long ephemeral;
        long turn;
        String lastFresh;
        int casVersion = -1;
        /** A create whose outcome is not known, to be tried again. */
        String doubtful;
        long doubtfulId;
    }

    @Override
    public int port() {
        return PORT;
    }

    @Override
    public Session open(Client client, Node at, long timeoutMs) throws IOException {
        ZkSession held = client.name.startsWith(Prober.CLIENTS) ? anIdle() : null;
        if (held != null) {
            return takenUp(held, client, at, timeoutMs);
        }
        ZkSession session = new ZkSession(ANSWER_MS);
        session.connect(client, at, SESSION_MS, (int) timeoutMs);
        sessions.add(session);
        return session;
    }

    /** One whose connection stands, else one that may have been over for a while; null when none is left. */
    private ZkSession anIdle() {
        for (ZkSession session : idle) {
            if (session.usable() && idle.remove(session)) {
                return session;
            }
        }
        return idle.poll();
    }

    /**
     * Goes on with an idle session at this server. In the history that is a session opened there: nothing was asked in it before, so the server has
     * only its own start to be measured by. One that could not be taken up may go on elsewhere, at another try.
     */
    private ZkSession takenUp(ZkSession held, Client client, Node at, long timeoutMs) throws IOException {
        try {
            held.connect(client, at, SESSION_MS, (int) timeoutMs);
            return held;
        } catch (ZkSession.Expired e) {
            held.drop();
            throw e;
        } catch (IOException e) {
            idle.addFirst(held);
            throw e;
        }
    }

    @Override
    public Resumed resume(Client client, Session session, Node at, long timeoutMs) throws IOException {
        try {
            ((ZkSession) session).connect(client, at, SESSION_MS, (int) Math.min(timeoutMs, 1000));
            return Resumed.MOVED;
        } catch (ZkSession.Expired e) {
            return Resumed.EXPIRED;
        }
    }

    @Override
    public boolean closeEndsOperations() {
        return true;
    }

    @Override
    public void setup(Runner run) throws Exception {
        Client first = run.clients.get(0);
        must(create(first, "/shared", "0", false, 0));
        for (Client client : run.clients) {
            traffic.put(client, new Traffic());
            must(create(first, counter(client.index), "0", false, 0));
        }
        for (int i = 0; i < IDLE; i++) {
            ZkSession session = new ZkSession(ANSWER_MS);
            session.connect(first, run.nodes.get(i % run.nodes.size()), SESSION_MS, SESSION_MS);
            sessions.add(session);
            idle.add(session);
        }
    }

    private static void must(Result result) throws IOException {
        if (!result.isOk()) {
            throw new IOException("set-up: " + result.error());
        }
    }

    private static String counter(int index) {
        return "/counter-" + index;
    }

    // ---- the fixed steps

    @Override
    public void steps(Runner run) {
        Client one = run.extra("steps-1");
        step(run, one, retryOf -> create(one, "/bug", "hello", false, retryOf));
        step(run, one, retryOf -> create(one, "/delete", "hello", false, retryOf));
        step(run, one, retryOf -> set(one, "/bug", "nice", retryOf));
        step(run, one, retryOf -> read(one, "/bug"));
        step(run, one, retryOf -> delete(one, "/delete", retryOf));
        step(run, one, retryOf -> create(one, "/eph", "ephem", true, retryOf));
        one.close();
        // ZooKeeper allows a stale read without sync(), so the second client asks for one before its reads count.
        Client two = run.extra("steps-2");
        step(run, two, retryOf -> sync(two));
        step(run, two, retryOf -> read(two, "/eph"));
        step(run, two, retryOf -> read(two, "/delete"));
        step(run, two, retryOf -> read(two, "/bug"));
        two.close();
    }

    private interface Attempt {
        Result make(long retryOf);
    }

    /** Makes a step, again when its outcome is not known, at the next server when there is no session. */
    private static void step(Runner run, Client client, Attempt attempt) {
        long retryOf = 0;
        for (int tries = 0; tries < STEP_TRIES && !run.stepsOver();) {
            try {
                client.session(1000);
            } catch (Exception e) {
                LockSupport.parkNanos(10_000_000L);
                continue;
            }
            Result result = attempt.make(retryOf);
            if (!result.isUnknown()) {
                return;
            }
            retryOf = retryOf == 0 ? client.lastId() : retryOf;
            tries++;
        }
    }

    // ---- traffic

    @Override
    public void traffic(Client client) throws Exception {
        client.session(1000);
        Traffic mine = traffic.get(client);
        long turn = mine.turn++;
        if (mine.doubtful != null) {
            String path = mine.doubtful;
            mine.doubtful = null;
            create(client, path, "f", false, mine.doubtfulId);
            return;
        }
        switch ((int) (turn % 10)) {
            case 0:
            case 5:
                set(client, counter(client.index), Long.toString(++mine.counter), 0);
                break;
            case 1:
            case 6:
                fresh(client, mine);
                break;
            case 2:
            case 7:
                Result shared = read(client, "/shared");
                mine.casVersion = shared.isOk() ? (int) shared.version() : -1;
                break;
            case 3:
            case 8:
                if (mine.casVersion >= 0) {
                    cas(client, mine.casVersion, client.name + "-" + turn);
                    mine.casVersion = -1;
                } else {
                    read(client, counter(client.index));
                }
                break;
            case 4:
                create(client, "/eph-" + client.index + "-" + mine.ephemeral++, client.name, true, 0);
                break;
            default:
                if (turn % 20 == 9 && mine.lastFresh != null) {
                    delete(client, mine.lastFresh, 0);
                    mine.lastFresh = null;
                } else {
                    read(client, counter(client.random.nextInt(traffic.size())));
                }
        }
    }

    @Override
    public void warm(Client client) throws Exception {
        client.session(1000);
        String path = "/warm-" + client.index;
        must(create(client, path, "w", false, 0));
        must(set(client, path, "x", 0));
        must(read(client, path));
        must(delete(client, path, 0));
    }

    private static void fresh(Client client, Traffic mine) {
        String path = "/fresh-" + client.index + "-" + mine.fresh++;
        mine.lastFresh = path;
        if (create(client, path, "f", false, 0).isUnknown()) {
            mine.doubtful = path;
            mine.doubtfulId = client.lastId();
        }
    }

    @Override
    public void probe(Client client) {
        for (int i = 0; i < traffic.size(); i++) {
            read(client, counter(i));
        }
        read(client, "/shared");
        read(client, "/eph");
        read(client, "/delete");
        read(client, "/bug");
    }

    @Override
    public void serve(Client client) throws Exception {
        String path = "/serve-" + client.name;
        String value;
        synchronized (this) {
            value = "s" + ++served;
        }
        Result made = create(client, path, value, false, 0);
        if ("NodeExists".equals(made.error())) {
            made = set(client, path, value, 0);
        }
        if (!made.isOk()) {
            throw new IOException("write: " + made.error());
        }
        Result seen = read(client, path);
        if (!seen.isOk() || !value.equals(seen.value())) {
            throw new IOException("read: " + (seen.isOk() ? "saw " + seen.value() + " for " + value : seen.error()));
        }
    }

    // ---- operations

    private static ZkSession of(Client client) {
        return (ZkSession) client.session();
    }

    /** An error answer: definite for the three that say so, unless an earlier try may have caused it. */
    private static Result refused(int error, long retryOf) {
        String name = error == ZkSession.NODE_EXISTS ? "NodeExists" : error == ZkSession.NO_NODE ? "NoNode"
                : error == ZkSession.BAD_VERSION ? "BadVersion" : null;
        if (name == null) {
            return Result.unknown("code " + error);
        }
        return retryOf == 0 ? Result.failed(name) : Result.unknown(name + " at a retry");
    }

    static Result create(Client client, String path, String value, boolean ephemeral, long retryOf) {
        Operation op = Operation.of(ephemeral ? "ephemeral" : "create", path).value(value).retryOf(retryOf);
        return client.run(op, () -> {
            ZkSession.Answer a = of(client).create(path, value, ephemeral);
            return a.error == ZkSession.OK ? Result.ok().zxid(a.zxid).mzxid(a.zxid).version(0) : refused(a.error, retryOf);
        });
    }

    static Result set(Client client, String path, String value, long retryOf) {
        return client.run(Operation.of("write", path).value(value).retryOf(retryOf), () -> {
            ZkSession.Answer a = of(client).setData(path, value, -1);
            return a.error == ZkSession.OK ? Result.ok().zxid(a.zxid).mzxid(a.mzxid).version(a.version)
                    : refused(a.error, retryOf);
        });
    }

    private static Result cas(Client client, int expect, String value) {
        return client.run(Operation.of("cas", "/shared").value(value).expect(expect), () -> {
            ZkSession.Answer a = of(client).setData("/shared", value, expect);
            return a.error == ZkSession.OK ? Result.ok().zxid(a.zxid).mzxid(a.mzxid).version(a.version)
                    : refused(a.error, 0);
        });
    }

    private static Result delete(Client client, String path, long retryOf) {
        return client.run(Operation.of("delete", path).retryOf(retryOf), () -> {
            ZkSession.Answer a = of(client).delete(path);
            return a.error == ZkSession.OK ? Result.ok().zxid(a.zxid).mzxid(a.zxid) : refused(a.error, retryOf);
        });
    }

    static Result sync(Client client) {
        return client.run(Operation.of("sync", "/"), () -> {
            ZkSession.Answer a = of(client).sync("/");
            return a.error == ZkSession.OK ? Result.ok().zxid(a.zxid) : refused(a.error, 0);
        });
    }

    static Result read(Client client, String path) {
        return client.run(Operation.of("read", path), () -> {
            ZkSession.Answer a = of(client).getData(path);
            if (a.error == ZkSession.NO_NODE) {
                return Result.ok().zxid(a.zxid);
            }
            return a.error != ZkSession.OK ? refused(a.error, 0)
                    : Result.ok().zxid(a.zxid).mzxid(a.mzxid).version(a.version)
                            .value(new String(a.data, StandardCharsets.UTF_8));
        });
    }

    @Override
    public boolean observe(Runner run, Observations out, boolean durable) throws Exception {
        return new ZkObserver(run, out, SESSION_MS, durable).observe();
    }
}
