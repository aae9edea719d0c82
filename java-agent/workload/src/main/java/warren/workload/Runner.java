package warren.workload;

import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;

/**
 * The workload process: obeys the command word (CONNECT, GO, STOP, DEGRADED, HEALED, CHECK, CHECK_DURABLE, EXIT), runs the
 * clients on daemon threads, writes history and observations. What is asked for liveness is {@link Liveness}'s. A target's main method calls {@link #main}. No command waits for
 * ever: each has a limit, after which a thread that still hangs is left behind and said so.
 */
public final class Runner {
    /** Of the arguments. */
    private static final int FIRST_NODE = 3;
    private static final int TAIL_OUTCOMES = 40;
    private static final int TAIL_OK = 10;
    private static final long TAIL_NS = 3_000_000_000L;
    /** So many outcomes after GO and after each fault without a tail in sight, or with its own tail done, a client paces itself: live traffic, no load test. */
    private static final int PACE_AFTER = 40;
    private static final long PACE_NS = 40_000_000L;
    /** Between two tries to open a session. */
    private static final long RETRY_NS = 8_000_000L;
    /** The last fault is done, and this client has seen enough of what came after it: its points would be more of the same. */
    private static final long WAIT_NS = 100_000_000L;
    /** Short beside everything that is waited for; each look wakes a thread in every cluster that runs. */
    private static final long POLL_NS = 2_000_000L;

    /** In the order of target.toml. */
    public final List<Node> nodes;
    /** The clients that make traffic, client 1 first. */
    public final List<Client> clients;
    final Driver driver;
    final History history;
    final Observations observations;
    private final WorkloadPage page;
    private final String network;
    private final Liveness liveness;
    final long operationMs;
    private final long stepsNs;
    private static final long GRACE_MS = 300;
    private final List<Client> everyone = new ArrayList<>();
    private int extras;
    private volatile boolean stopping;
    private volatile boolean stepsOver;
    private volatile long tailFrom;
    private long countedOk;
    private long countedAll;
    private final List<Thread> traffic = new ArrayList<>();
    private Prober prober;

    private Runner(String[] args, Driver driver) throws Exception {
        if (args.length <= FIRST_NODE) {
            throw new IllegalArgumentException("usage: <workload.page> <root> <clients> <node>=<address> ...");
        }
        page = new WorkloadPage(args[0]);
        history = new History(args[1] + "/history.jsonl");
        observations = new Observations(args[1] + "/observations.jsonl");
        this.driver = driver;
        List<Node> named = new ArrayList<>();
        for (Map.Entry<String, String> node : addresses(args).entrySet()) {
            named.add(new Node(node.getKey(), node.getValue(), named.size(), page));
        }
        nodes = Collections.unmodifiableList(named);
        String first = nodes.get(0).address;
        network = first.substring(0, first.lastIndexOf('.') + 1);
        int count = Integer.parseInt(args[2]);
        extras = count;
        List<Client> made = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            made.add(new Client(this, "client-" + (i + 1), i, network + (101 + i), page.seed()));
        }
        clients = Collections.unmodifiableList(made);
        everyone.addAll(made);
        long session = number("session_ms", 4000);
        operationMs = number("operation_ms", Math.max(2000, session));
        liveness = new Liveness(this, number("serve_ms", Math.max(10_000, 2 * session + 20 * number("tick_ms", 500))));
        stepsNs = number("steps_ms", TAIL_NS / 1_000_000) * 1_000_000;
    }

    /** Names of the nodes that these arguments of a workload program tell of, with their addresses, in their order. */
    public static Map<String, String> addresses(String[] args) {
        Map<String, String> addresses = new LinkedHashMap<>();
        for (int i = FIRST_NODE; i < args.length; i++) {
            int sign = args[i].indexOf('=');
            if (sign < 1) {
                throw new IllegalArgumentException("node `" + args[i] + "`: write <name>=<address>");
            }
            addresses.put(args[i].substring(0, sign), args[i].substring(sign + 1));
        }
        return addresses;
    }

    /** Runs a workload program to its end. Never returns. */
    public static void main(String[] args, Driver driver) {
        boolean done = obey(args, driver);
        System.out.flush();
        Runtime.getRuntime().halt(done ? 0 : 1);
    }

    /** Obeys the page until EXIT. @return false when it could not */
    static boolean obey(String[] args, Driver driver) {
        try {
            new Runner(args, driver).obey();
            return true;
        } catch (Throwable e) {
            System.out.println("workload: " + e);
            return false;
        }
    }

    /** A value of [workload.options] or of [clock]. */
    public static String option(String key, String otherwise) {
        return System.getProperty("warren." + key, otherwise);
    }

    public static long number(String key, long otherwise) {
        String text = option(key, null);
        return text == null ? otherwise : Long.parseLong(text);
    }

    /** One more client, for steps or checks, that makes no traffic. */
    public synchronized Client extra(String name) {
        int index = extras++;
        Client client = new Client(this, name, index, network + (101 + index % 100), page.seed());
        everyone.add(client);
        return client;
    }

    /** Those whose names begin so: those of one group. */
    public List<Node> nodes(String prefix) {
        List<Node> found = new ArrayList<>();
        for (Node node : nodes) {
            if (node.name.startsWith(prefix)) {
                found.add(node);
            }
        }
        return found;
    }

    public List<Node> alive() {
        List<Node> living = new ArrayList<>();
        for (Node node : nodes) {
            if (node.alive()) {
                living.add(node);
            }
        }
        return living;
    }

    /** The fixed steps are to end: the run is ending, or the system has not let them end in time. */
    public boolean stepsOver() {
        return stepsOver || stopping();
    }

    /** True once the fixed steps and the traffic should end. */
    public boolean stopping() {
        return stopping || page.command() >= WorkloadPage.STOP || past(page.deadline());
    }

    private static boolean past(long time) {
        return time != 0 && System.nanoTime() - time >= 0;
    }

    private void obey() {
        int last = 0;
        while (true) {
            int command = page.command();
            if (command == last) {
                LockSupport.parkNanos(POLL_NS);
                continue;
            }
            // GO ends by itself when STOP comes: no command between may be lost.
            last = command;
            if (command == WorkloadPage.EXIT) {
                page.done(command);
                return;
            }
            try {
                perform(command);
            } catch (Exception e) {
                System.out.println("command " + command + ": " + e);
                System.out.flush();
                page.error();
            }
            page.done(command);
        }
    }

    private void perform(int command) throws Exception {
        switch (command) {
            case WorkloadPage.CONNECT:
                history.phase("setup");
                connect();
                break;
            case WorkloadPage.GO:
                history.phase("test");
                if (number("plain_ops", 0) > 0) {
                    plain((int) number("plain_ops", 0));
                } else {
                    go();
                }
                break;
            case WorkloadPage.STOP:
                stopping = true;
                endTraffic();
                break;
            case WorkloadPage.DEGRADED:
                stopping = true;
                history.phase("degraded");
                endTraffic();
                liveness.nodes("degraded", false);
                break;
            case WorkloadPage.HEALED:
                stopping = true;
                history.phase("healed");
                endTraffic();
                liveness.nodes("healed", true);
                liveness.clients("healed");
                if (prober != null) {
                    prober.stop();
                }
                closeAll();
                break;
            case WorkloadPage.CHECK:
            case WorkloadPage.CHECK_DURABLE:
                history.phase("final");
                check(command == WorkloadPage.CHECK_DURABLE);
                break;
            default:
                throw new IllegalStateException("unknown command word " + command);
        }
    }

    private void connect() throws Exception {
        prober = new Prober(this);
        long limit = System.nanoTime() + 30_000_000_000L;
        List<Thread> threads = new ArrayList<>();
        final List<String> failures = Collections.synchronizedList(new ArrayList<String>());
        for (final Client client : clients) {
            threads.add(start("connect-" + client.name, () -> {
                String failure = until(limit, null, () -> client.session(operationMs));
                if (failure != null) {
                    failures.add(client.name + ": " + failure);
                }
            }));
        }
        join(threads, limit);
        if (!failures.isEmpty()) {
            throw new IllegalStateException("clients could not connect: " + failures);
        }
        driver.setup(this);
        if (number("for_snapshot", 0) == 1) {
            warm(number("warm_ops", 0));
        }
    }

    /**
     * Before a snapshot is taken: so many outcomes of each client, so that what is restored again and again has its code compiled.
     * These operations are in no history. Throws when one of them failed: then it may have left something behind. A slow machine makes
     * fewer.
     */
    private void warm(long outcomes) throws InterruptedException {
        final long enough = System.nanoTime() + 6_000_000_000L;
        long limit = enough + 14_000_000_000L;
        final List<String> failures = Collections.synchronizedList(new ArrayList<String>());
        List<Thread> threads = new ArrayList<>();
        history.passOver = true;
        for (final Client client : clients) {
            threads.add(start("warm-" + client.name, () -> {
                while (client.outcomes < outcomes && !stopping() && failures.isEmpty() && System.nanoTime() - enough < 0) {
                    try {
                        driver.warm(client);
                    } catch (Exception e) {
                        failures.add(client.name + ": " + e);
                    }
                }
            }));
        }
        join(threads, limit);
        for (Thread thread : threads) {
            if (thread.isAlive()) {
                failures.add(thread.getName() + " did not end in 20 s");
            }
        }
        history.passOver = false;
        if (!failures.isEmpty()) {
            throw new IllegalStateException("the system could not be warmed up: " + failures);
        }
        for (Client client : clients) {
            client.outcomes = 0;
        }
    }

    private void go() throws Exception {
        long go = System.nanoTime();
        boolean noneAsked = page.noneAsked();
        prober.start();
        Thread steps = start("steps", () -> {
            try {
                driver.steps(this);
            } catch (Throwable t) {
                stepsEnded(t);
            }
        });
        // Steps that a broken system never lets end are given up like the traffic: so long after the last fault as the target says, or after GO where
        // that was before. Only where nothing was asked for they have all the time of the run.
        while (steps.isAlive() && !stopping() && (noneAsked || !over(lastFault(go), stepsNs))) {
            LockSupport.parkNanos(POLL_NS);
        }
        stepsOver = true;
        List<Thread> stepping = new ArrayList<>();
        stepping.add(steps);
        end(stepping);
        page.fixedDone(System.nanoTime());
        long fixedDone = System.nanoTime();
        for (final Client client : clients) {
            traffic.add(start("traffic-" + client.name, () -> {
                try {
                    trafficLoop(client);
                } catch (Throwable t) {
                    broke("the traffic of " + client.name, t, stopping());
                }
            }));
        }
        while (!stopping()) {
            long faults = page.faultsDone();
            if (faults != 0 && tailFrom == 0) {
                tailFrom = Math.max(faults, fixedDone);
            }
            // Where no fault came after GO, the tail is what comes after the steps; steps that may go on for longer than one must leave one behind them.
            long from = page.overAtGo() || stepsNs > TAIL_NS ? tailFrom : faults;
            if (tailFrom != 0 && (tailsDone() || over(from, TAIL_NS))) {
                break;
            }
            LockSupport.parkNanos(POLL_NS);
        }
        stopping = true;
        endTraffic();
    }

    /** When the last fault was done or given up, or GO given where that was later; 0 = it is still awaited. */
    private long lastFault(long go) {
        long faults = page.faultsDone();
        return faults == 0 ? 0 : Math.max(faults, go);
    }

    /**
     * The fixed steps threw. By what a client was told the run is weaker, and a reader is to know; an error is our program's. Given up, they may end in
     * any way: their sessions are cut off.
     */
    private void stepsEnded(Throwable t) {
        if (t instanceof Error) {
            broke("the fixed steps", t, stepsOver());
        } else if (!stepsOver() && !(t instanceof InterruptedException)) {
            observations.note("the fixed steps ended early: " + brief(t));
        }
    }

    /**
     * A thread of the workload ends by an error of its own, so what it was to do is not done: no failure of the system's, and no pass.
     *
     * @param over nobody needs it any more
     */
    void broke(String what, Throwable t, boolean over) {
        if (!over) {
            observations.incomplete("progress", what + " ended: " + brief(t));
        }
    }

    /** Its first line: a client that tried again and again may tell of each try. */
    private static String brief(Throwable t) {
        return t.toString().split("\n", 2)[0];
    }

    /** A time is up, counted from an instant (0 = not yet known). */
    private static boolean over(long from, long time) {
        return from != 0 && System.nanoTime() - from >= time;
    }

    /** For bench: so many operations in all, spread over the clients; no fixed steps, no prober, no tail, no pacing. */
    private void plain(int operations) throws InterruptedException {
        page.fixedDone(System.nanoTime());
        final AtomicInteger left = new AtomicInteger(operations);
        List<Thread> threads = new ArrayList<>();
        for (final Client client : clients) {
            threads.add(start("plain-" + client.name, () -> {
                while (left.getAndDecrement() > 0 && !stopping()) {
                    try {
                        driver.traffic(client);
                    } catch (Exception e) {
                        client.drop();
                        // No session: nothing was asked of the system, so this is no outcome.
                    }
                }
            }));
        }
        // Bounded by the deadline of the page, which stopping() knows, and by the bound of each operation.
        for (Thread thread : threads) {
            thread.join();
        }
        stopping = true;
    }

    private void trafficLoop(Client client) {
        long faults = page.faults();
        long since = client.outcomes;
        while (!stopping()) {
            if (page.faults() != faults) {
                faults = page.faults();
                since = client.outcomes;
            }
            try {
                driver.traffic(client);
            } catch (Exception e) {
                // No session: nothing was asked of the system, so this is no outcome.
                LockSupport.parkNanos(RETRY_NS);
            }
            boolean waitsForOthers = tailFrom != 0 && tailDone(client);
            if (waitsForOthers || tailFrom == 0 && client.outcomes - since > PACE_AFTER) {
                long until = System.nanoTime() + (waitsForOthers ? WAIT_NS : PACE_NS);
                while ((waitsForOthers || tailFrom == 0) && !stopping() && System.nanoTime() - until < 0) {
                    LockSupport.parkNanos(POLL_NS);
                }
            }
        }
    }

    boolean inTail() {
        return tailFrom != 0;
    }

    synchronized void counted(boolean ok) {
        countedAll++;
        if (ok) {
            countedOk++;
        }
        page.operations(countedOk, countedAll);
    }

    private boolean tailsDone() {
        for (Client client : clients) {
            if (!tailDone(client)) {
                return false;
            }
        }
        return true;
    }

    private static boolean tailDone(Client client) {
        return client.tailOutcomes >= TAIL_OUTCOMES && client.tailOk >= TAIL_OK;
    }

    /** Waits for the clients' threads; one that hangs is left behind and named. */
    private void endTraffic() throws InterruptedException {
        end(traffic);
        for (Thread thread : traffic) {
            if (thread.isAlive()) {
                System.out.println(thread.getName() + " still waits in an operation and is left behind");
            }
        }
        traffic.removeIf(thread -> !thread.isAlive());
    }

    /**
     * Waits for threads whose work is over. An operation that still waits for an answer after a moment's grace gets none any
     * more: its connection is dropped, so a run does not wait for the timeouts of clients on a cut server.
     */
    private void end(List<Thread> threads) throws InterruptedException {
        long limit = System.nanoTime() + (operationMs + 1000) * 1_000_000L;
        join(threads, System.nanoTime() + GRACE_MS * 1_000_000L);
        while (anyAlive(threads) && System.nanoTime() - limit < 0) {
            List<Client> all;
            synchronized (this) {
                all = new ArrayList<>(everyone);
            }
            for (Client client : all) {
                client.cut();
            }
            join(threads, System.nanoTime() + GRACE_MS * 1_000_000L);
        }
    }

    private static boolean anyAlive(List<Thread> threads) {
        for (Thread thread : threads) {
            if (thread.isAlive()) {
                return true;
            }
        }
        return false;
    }

    boolean leftBehind(Client client) {
        for (Thread thread : traffic) {
            if (thread.getName().equals("traffic-" + client.name)) {
                return true;
            }
        }
        return false;
    }

    private void closeAll() throws InterruptedException {
        List<Thread> threads = new ArrayList<>();
        for (final Client client : clients) {
            if (!leftBehind(client)) {
                threads.add(start("close-" + client.name, () -> {
                    try {
                        client.session(operationMs);
                    } catch (Exception e) {
                        // it will expire
                    }
                    client.close();
                }));
            }
        }
        join(threads, System.nanoTime() + operationMs * 1_000_000L);
    }

    private void check(boolean durable) throws Exception {
        observations.durable(durable);
        boolean complete = false;
        try {
            complete = driver.observe(this, observations, durable);
        } catch (Exception e) {
            observations.incomplete(durable ? "durability" : "replicas", e.toString());
        }
        observations.round(durable ? "durable" : "final", complete);
    }

    interface Step {
        void run() throws Exception;
    }

    /** Repeats a step until it succeeds, the limit passes, or the node it is about has died. @return null or the last failure */
    static String until(long limit, Node about, Step step) {
        while (true) {
            try {
                step.run();
                return null;
            } catch (Exception e) {
                if (System.nanoTime() - limit >= 0 || about != null && !about.alive()) {
                    return e.toString();
                }
                LockSupport.parkNanos(10_000_000L);
            }
        }
    }

    static long since(long began) {
        return (System.nanoTime() - began) / 1_000_000L;
    }

    static Thread start(String name, Runnable body) {
        Thread thread = new Thread(body, name);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    static void join(List<Thread> threads, long limit) throws InterruptedException {
        for (Thread thread : threads) {
            long left = (limit - System.nanoTime()) / 1_000_000L;
            thread.join(Math.max(1, left));
        }
    }
}
