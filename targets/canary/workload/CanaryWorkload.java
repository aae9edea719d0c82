import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import warren.workload.Client;
import warren.workload.Condition;
import warren.workload.Driver;
import warren.workload.NamedSession;
import warren.workload.Node;
import warren.workload.Observations;
import warren.workload.Operation;
import warren.workload.Result;
import warren.workload.Runner;
import warren.workload.Session;
import warren.workload.Sockets;

/**
 * The canary's workload: one writer per counter key with rising values, fresh keys that nobody writes twice, one key that all
 * compare and set, values in parts now and then, reads and deletes. A session is a connection to one server.
 */
public final class CanaryWorkload extends Driver {
    private static final int PORT = 7401;
    /** Longer than any server lets a request wait, so that an answer, even an uncertain one, comes before we stop listening. */
    private static final int READ_MS = 2700;
    /** Of so many turns of a client, the last few write values in parts. */
    private static final int BIG_EVERY = 40;
    private static final int BIG_FROM = 30;
    private static final long OBSERVE_NS = 5_000_000_000L;
    private final AtomicLong sessions = new AtomicLong();
    private final Map<Client, Traffic> traffic = new LinkedHashMap<>();

    public static void main(String[] args) {
        Runner.main(args, new CanaryWorkload());
    }

    private static final class Connection extends NamedSession {
        private final Socket socket;
        private final BufferedReader in;

        Connection(String id, Socket socket) throws IOException {
            super(id);
            this.socket = socket;
            in = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
        }

        String ask(String line) throws IOException {
            try {
                socket.getOutputStream().write((line + "\n").getBytes(StandardCharsets.UTF_8));
                return answer();
            } catch (IOException e) {
                usable = false;
                throw e;
            }
        }

        String answer() throws IOException {
            String text = in.readLine();
            if (text == null) {
                throw new IOException("closed by the server");
            }
            return text;
        }

        @Override
        public void drop() {
            usable = false;
            Sockets.close(socket);
        }
    }

    /** What one traffic client remembers. */
    private static final class Traffic {
        long counter;
        long fresh;
        long turn;
        String lastFresh;
        long casVersion = -1;
    }

    @Override
    public int port() {
        return PORT;
    }

    @Override
    public Session open(Client client, Node at, long timeoutMs) throws IOException {
        Socket socket = Sockets.connect(client.address, at.address, PORT, (int) timeoutMs, READ_MS);
        try {
            Connection connection = new Connection(client.name + "#" + sessions.incrementAndGet(), socket);
            if (connection.ask("get none").startsWith("fail")) {
                throw new IOException(at + " does not serve");
            }
            return connection;
        } catch (IOException e) {
            Sockets.close(socket);
            throw e;
        }
    }

    @Override
    public void setup(Runner run) throws Exception {
        for (Client client : run.clients) {
            traffic.put(client, new Traffic());
        }
        Client first = run.clients.get(0);
        if (!write(first, "create", "shared", "0").isOk()) {
            throw new IOException("cannot create the shared key");
        }
    }

    @Override
    public void steps(Runner run) {
        Client one = run.extra("steps-1");
        if (connected(run, one)) {
            write(one, "create", "bug", "hello");
            write(one, "create", "delete", "hello");
            write(one, "write", "bug", "nice");
            read(one, "bug");
            write(one, "delete", "delete", "");
            one.close();
        }
        Client two = run.extra("steps-2");
        if (connected(run, two)) {
            sync(two);
            read(two, "bug");
            read(two, "delete");
            two.close();
        }
    }

    /** Tries the servers in turn until one serves or the run ends. */
    private static boolean connected(Runner run, Client client) {
        while (!run.stepsOver()) {
            try {
                client.session(500);
                return true;
            } catch (Exception e) {
                LockSupport.parkNanos(10_000_000L);
            }
        }
        return false;
    }

    @Override
    public void traffic(Client client) throws Exception {
        client.session(500);
        Traffic mine = traffic.get(client);
        long turn = mine.turn++;
        Result result;
        switch ((int) (turn % 8)) {
            case 0:
                result = write(client, "write", counter(client.index), Long.toString(++mine.counter));
                break;
            case 1:
            case 5:
                mine.lastFresh = "fresh-" + client.index + "-" + mine.fresh++;
                result = write(client, "create", mine.lastFresh, "f" + turn);
                break;
            case 2:
                result = read(client, "shared");
                mine.casVersion = result.isOk() ? result.version() : -1;
                break;
            case 3:
                result = mine.casVersion < 0 ? read(client, counter(client.index)) : cas(client, mine);
                break;
            case 4:
            case 6:
                result = write(client, turn % BIG_EVERY >= BIG_FROM ? "big" : "create", "big-" + client.index + "-" + turn,
                        parts(client.index, turn));
                break;
            default:
                result = turn % 16 == 7 ? write(client, "delete", mine.lastFresh, "")
                        : read(client, counter(client.random.nextInt(3)));
        }
        if ("NotServing".equals(result.error())) {
            // This server has lost its leader: the next one may have it.
            client.drop();
            LockSupport.parkNanos(10_000_000L);
        }
    }

    private static String counter(int index) {
        return "counter-" + index;
    }

    private static String parts(int client, long turn) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < 30; i++) {
            text.append(client).append('.').append(turn).append('.').append(i).append(';');
        }
        return text.toString();
    }

    @Override
    public void probe(Client client) {
        for (int i = 0; i < 3; i++) {
            read(client, counter(i));
        }
        read(client, "shared");
    }

    @Override
    public void serve(Client client) throws Exception {
        String value = "s" + sessions.incrementAndGet();
        Result written = write(client, "write", "serve-" + client.name, value);
        if (!written.isOk()) {
            throw new IOException("write: " + written.error());
        }
        Result seen = read(client, "serve-" + client.name);
        if (!seen.isOk() || !value.equals(seen.value())) {
            throw new IOException("read: " + (seen.isOk() ? "saw " + seen.value() + " for " + value : seen.error()));
        }
    }

    // ---- operations

    private static Connection connection(Client client) {
        return (Connection) client.session();
    }

    /** write, create, delete; `big` is a create whose value goes to the leader in parts. */
    private static Result write(Client client, String op, String key, String value) {
        String kind = op.equals("big") ? "create" : op;
        String word = op.equals("write") ? "put" : op.equals("delete") ? "del" : op;
        Operation operation = Operation.of(kind, key).value(op.equals("delete") ? null : value);
        return client.run(operation, () -> changed(connection(client).ask(word + " " + key + " " + value)));
    }

    private static Result cas(Client client, Traffic mine) {
        long expect = mine.casVersion;
        mine.casVersion = -1;
        String value = client.name + "-" + mine.turn;
        return client.run(Operation.of("cas", "shared").value(value).expect(expect),
                () -> changed(connection(client).ask("cas shared " + expect + " " + value)));
    }

    private static Result sync(Client client) {
        return client.run(Operation.of("sync", null), () -> changed(connection(client).ask("sync")));
    }

    private static Result changed(String answer) {
        String[] words = answer.split(" ");
        switch (words[0]) {
            case "ok":
                long index = Long.parseLong(words[1]);
                return Result.ok().zxid(index).mzxid(index).version(Long.parseLong(words[2]));
            case "fail":
                return Result.failed(words[1]);
            default:
                return Result.unknown(words[1]);
        }
    }

    private static Result read(Client client, String key) {
        return client.run(Operation.of("read", key), () -> {
            String[] words = connection(client).ask("get " + key).split(" ");
            switch (words[0]) {
                case "ok":
                    return Result.ok().zxid(Long.parseLong(words[1])).version(Long.parseLong(words[2]))
                            .mzxid(Long.parseLong(words[3])).value(words[4]);
                case "none":
                    return Result.ok().zxid(Long.parseLong(words[1]));
                default:
                    return Result.failed(words[1]);
            }
        });
    }

    // ---- what can be seen of the healed cluster

    /** The whole content of a node at one moment. */
    private static final class Dump {
        final List<String[]> keys = new ArrayList<>();
        String applied;
        String digest;
    }

    /** A node that does not sync, cannot be dumped or does not come to the others' length is left out; the others make a round if they are more than half. */
    @Override
    public boolean observe(Runner run, Observations out, boolean durable) throws Exception {
        long limit = System.nanoTime() + OBSERVE_NS;
        Set<Node> synced = synced(run, durable, limit - OBSERVE_NS / 2);
        Map<Node, Client> clients = new LinkedHashMap<>();
        Map<Node, Dump> dumps = dumps(run, clients);
        Map<Node, Dump> told = ofOneLength(dumps, synced);
        while (told.size() < synced.size() && System.nanoTime() - limit < 0) {
            LockSupport.parkNanos(20_000_000L);
            dumps = dumps(run, clients);
            told = ofOneLength(dumps, synced);
        }
        for (Node node : run.alive()) {
            if (!told.containsKey(node)) {
                Dump dump = dumps.get(node);
                String what = !synced.contains(node) ? " did not sync" : dump == null ? " did not tell what it holds"
                        : " is at length " + dump.applied + ", others are not";
                out.incomplete("replicas", node + what);
            }
        }
        boolean complete = 2 * told.size() > run.nodes.size();
        // In a round that is complete each node that has a line counts as read.
        for (Map.Entry<Node, Dump> e : (complete ? told : dumps).entrySet()) {
            for (String[] key : e.getValue().keys) {
                out.replica(e.getKey(), e.getValue().applied, key[0], key[3], key[2]);
            }
            out.digest(e.getKey(), e.getValue().applied, e.getValue().digest);
        }
        leaders(run, out, limit, complete ? told.keySet() : dumps.keySet());
        return complete;
    }

    /** Nodes that have all that was acknowledged before: each has answered a sync. One may still look for its leader, so they are asked until the limit. */
    private static Set<Node> synced(Runner run, boolean durable, long limit) {
        Set<Node> synced = new LinkedHashSet<>();
        Map<Node, Client> clients = new LinkedHashMap<>();
        while (true) {
            for (Node node : run.alive()) {
                if (!synced.contains(node) && synced(client(run, clients, "sync-", node), node, durable)) {
                    synced.add(node);
                }
            }
            if (synced.containsAll(run.alive()) || System.nanoTime() - limit >= 0) {
                return synced;
            }
            LockSupport.parkNanos(20_000_000L);
        }
    }

    /** With a read behind it: nothing of that is legally stale by now (the check `sync`). What it showed after the restart of all would be told as shown by the test. */
    private static boolean synced(Client client, Node node, boolean durable) {
        try {
            client.open(node, 1000);
            boolean done = sync(client).isOk();
            if (done && !durable) {
                read(client, "shared");
            }
            return done;
        } catch (Exception e) {
            return false;
        } finally {
            client.close();
        }
    }

    private static Client client(Runner run, Map<Node, Client> clients, String name, Node node) {
        return clients.computeIfAbsent(node, at -> run.extra(name + at.name));
    }

    /**
     * A leader that changes between two questions looks like two: all are asked twice, and told is what they say both times. One that was
     * deposed may not know it for a moment, so two are asked on. Of a node that is not among those read only its silence is told.
     */
    private static void leaders(Runner run, Observations out, long limit, Set<Node> read) throws Exception {
        Map<Node, String> leaders = Condition.steady(limit, () -> leading(run));
        while (leaders != null && leaders.size() > 1 && System.nanoTime() - limit < 0) {
            LockSupport.parkNanos(20_000_000L);
            leaders = Condition.steady(limit, () -> leading(run));
        }
        if (leaders == null) {
            out.incomplete("leader", "who leads, or in which epoch, changes whenever it is asked");
            return;
        }
        for (Node node : run.alive()) {
            if (!read.contains(node)) {
                out.incomplete("leader", node + " was not read");
            } else if (leaders.containsKey(node)) {
                out.leader(node, leaders.get(node));
            }
        }
    }

    /** Each node that says it leads, and its epoch. */
    private static Map<Node, String> leading(Runner run) {
        Map<Node, String> leading = new LinkedHashMap<>();
        for (Node node : run.alive()) {
            String status = "";
            try {
                status = Sockets.word(run.clients.get(0).address, node.address, PORT, "srvr", 1000);
            } catch (IOException e) {
                // it does not say so
            }
            if (status.contains("Mode: leader")) {
                leading.put(node, status.replaceAll("(?s).*Epoch: (\\d+).*", "$1"));
            }
        }
        return leading;
    }

    /** Of each node that answers. */
    private static Map<Node, Dump> dumps(Runner run, Map<Node, Client> clients) {
        Map<Node, Dump> dumps = new LinkedHashMap<>();
        for (Node node : run.alive()) {
            Client client = client(run, clients, "check-", node);
            try {
                client.open(node, 1000);
                dumps.put(node, dump(connection(client)));
            } catch (Exception e) {
                // it is missing in what is told
            } finally {
                client.close();
            }
        }
        return dumps;
    }

    private static Dump dump(Connection connection) throws IOException {
        Dump dump = new Dump();
        String line = connection.ask("dump");
        while (!line.startsWith("end ")) {
            dump.keys.add(line.split(" "));
            line = connection.answer();
        }
        String[] words = line.split(" ");
        dump.applied = words[1];
        dump.digest = words[2];
        return dump;
    }

    /** Those that are synced and at one length: at the one that most are at. */
    private static Map<Node, Dump> ofOneLength(Map<Node, Dump> dumps, Set<Node> synced) {
        Map<String, Map<Node, Dump>> lengths = new LinkedHashMap<>();
        Map<Node, Dump> most = new LinkedHashMap<>();
        for (Map.Entry<Node, Dump> e : dumps.entrySet()) {
            if (synced.contains(e.getKey())) {
                Map<Node, Dump> at = lengths.computeIfAbsent(e.getValue().applied, length -> new LinkedHashMap<>());
                at.put(e.getKey(), e.getValue());
                most = at.size() > most.size() ? at : most;
            }
        }
        return most;
    }
}
