import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import warren.workload.Client;
import warren.workload.Node;
import warren.workload.Observations;
import warren.workload.Runner;
import warren.workload.Sockets;

/**
 * What can be seen of a healed ensemble: leftover ephemerals, the whole tree of every server between two `srvr` rounds with one
 * and the same zxid, its digest, who leads in which epoch. One object per round; the only operations of the history that it makes are
 * reads behind a sync.
 */
final class ZkObserver {
    private static final Pattern ZXID = Pattern.compile("Zxid: 0x([0-9a-f]+)");
    private static final Pattern MODE = Pattern.compile("Mode: (\\w+)");
    private static final Pattern DIGEST = Pattern.compile("(?m)^([0-9a-f]+): (-?\\d+)\\s*$");
    private static final int WORD_MS = 2000;
    private static final long ROUNDS_NS = 8_000_000_000L;
    private static final long POLL_NS = 20_000_000L;
    /** What the fixed steps leave changed, and what all clients change. */
    private static final String[] FRESH = {"/bug", "/shared"};

    private final Runner run;
    private final Observations out;
    private final int sessionMs;
    private final boolean durable;
    private final Map<Node, Client> clients = new LinkedHashMap<>();

    /** @param durable whether all nodes have just been started again: what reads show then would be told as shown by the test */
    ZkObserver(Runner run, Observations out, int sessionMs, boolean durable) {
        this.run = run;
        this.out = out;
        this.sessionMs = sessionMs;
        this.durable = durable;
    }

    private static final class Znode {
        final ZkSession.Answer answer;

        Znode(ZkSession.Answer answer) {
            this.answer = answer;
        }

        String value() {
            return new String(answer.data, StandardCharsets.UTF_8);
        }
    }

    /** One server's tree, or why there is none. */
    private static final class Tree {
        final Map<String, Znode> nodes = new TreeMap<>();
        Exception failure;
    }

    boolean observe() throws Exception {
        for (Node node : run.alive()) {
            Client client = run.extra("check-" + node.name);
            client.open(node, sessionMs);
            clients.put(node, client);
        }
        try {
            awaitEphemerals();
            if (!durable) {
                fresh();
            }
            return compare();
        } finally {
            for (Client client : clients.values()) {
                client.close();
            }
        }
    }

    private static ZkSession of(Client client) {
        return (ZkSession) client.session();
    }

    /** All sessions but ours are closed: their ephemerals must go, at the latest when the sessions have expired. */
    private void awaitEphemerals() throws Exception {
        Client client = clients.values().iterator().next();
        long limit = System.nanoTime() + 2L * sessionMs * 1_000_000L;
        while (true) {
            of(client).sync("/");
            Tree tree = tree(client);
            if (tree.failure != null) {
                throw tree.failure;
            }
            Map<String, Long> left = new TreeMap<>();
            for (Map.Entry<String, Znode> e : tree.nodes.entrySet()) {
                if (e.getValue().answer.ephemeralOwner != 0) {
                    left.put(e.getKey(), e.getValue().answer.ephemeralOwner);
                }
            }
            if (left.isEmpty()) {
                return;
            }
            if (System.nanoTime() - limit >= 0) {
                for (Map.Entry<String, Long> e : left.entrySet()) {
                    out.leftover("ephemeral", e.getKey(), "0x" + Long.toHexString(e.getValue()));
                }
                return;
            }
            LockSupport.parkNanos(POLL_NS);
        }
    }

    /** Read at each server behind a sync: nothing of this is legally stale by now (the check `sync`). */
    private void fresh() {
        for (Client client : clients.values()) {
            ZkWorkload.sync(client);
            for (String path : FRESH) {
                ZkWorkload.read(client, path);
            }
        }
    }

    private boolean compare() throws Exception {
        long limit = System.nanoTime() + ROUNDS_NS;
        String why = "";
        while (true) {
            for (Client client : clients.values()) {
                of(client).sync("/");
            }
            Map<Node, String> before = words("srvr");
            String zxid = common(before);
            if (zxid != null) {
                Map<Node, Tree> trees = trees();
                Map<Node, String> hashes = words("hash");
                Map<Node, String> after = words("srvr");
                why = failure(trees);
                if (why == null && zxid.equals(common(after))) {
                    tell(zxid, trees, hashes);
                    leaders(after);
                    return true;
                }
                why = why == null ? "the zxid moved on while the trees were read" : why;
            } else {
                why = "servers have different zxids: " + zxids(before);
            }
            if (System.nanoTime() - limit >= 0) {
                out.incomplete("replicas", why);
                out.incomplete("digests", why);
                leaders(before);
                return false;
            }
            LockSupport.parkNanos(POLL_NS);
        }
    }

    private Map<Node, String> words(String word) {
        Map<Node, String> answers = new LinkedHashMap<>();
        for (Map.Entry<Node, Client> e : clients.entrySet()) {
            String answer;
            try {
                answer = Sockets.word(e.getValue().address, e.getKey().address, ZkWorkload.PORT, word, WORD_MS);
            } catch (IOException x) {
                answer = "";
            }
            answers.put(e.getKey(), answer);
        }
        return answers;
    }

    private static String find(Pattern pattern, String text) {
        Matcher m = pattern.matcher(text);
        return m.find() ? m.group(1) : "";
    }

    private static List<String> zxids(Map<Node, String> answers) {
        List<String> all = new ArrayList<>();
        for (Map.Entry<Node, String> e : answers.entrySet()) {
            all.add(e.getKey() + "=" + find(ZXID, e.getValue()));
        }
        return all;
    }

    /** The one zxid of all servers, or null. */
    private static String common(Map<Node, String> answers) {
        String one = null;
        for (String answer : answers.values()) {
            String zxid = find(ZXID, answer);
            if (zxid.isEmpty() || one != null && !one.equals(zxid)) {
                return null;
            }
            one = zxid;
        }
        return one;
    }

    /** Reads all servers at once, one thread each. */
    private Map<Node, Tree> trees() throws InterruptedException {
        final Map<Node, Tree> trees = new LinkedHashMap<>();
        List<Thread> threads = new ArrayList<>();
        for (final Map.Entry<Node, Client> e : clients.entrySet()) {
            final Tree[] place = new Tree[1];
            Thread thread = new Thread(() -> {
                Tree tree = tree(e.getValue());
                synchronized (trees) {
                    trees.put(e.getKey(), tree);
                }
            }, "tree-" + e.getKey());
            thread.setDaemon(true);
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join(ROUNDS_NS / 1_000_000L);
        }
        synchronized (trees) {
            return new LinkedHashMap<>(trees);
        }
    }

    private static Tree tree(Client client) {
        Tree tree = new Tree();
        Deque<String> open = new ArrayDeque<>();
        open.add("/");
        try {
            while (!open.isEmpty()) {
                String path = open.poll();
                ZkSession.Answer data = of(client).getData(path);
                ZkSession.Answer children = of(client).getChildren(path);
                if (data.error == ZkSession.NO_NODE || children.error == ZkSession.NO_NODE) {
                    continue;
                }
                if (data.error != ZkSession.OK || children.error != ZkSession.OK) {
                    throw new IOException(path + ": codes " + data.error + ", " + children.error);
                }
                tree.nodes.put(path, new Znode(data));
                for (String child : children.children) {
                    String below = path.equals("/") ? "/" + child : path + "/" + child;
                    if (!below.equals("/zookeeper/config")) {
                        open.add(below);
                    }
                }
            }
        } catch (IOException e) {
            tree.failure = e;
        }
        return tree;
    }

    private String failure(Map<Node, Tree> trees) {
        for (Map.Entry<Node, Client> e : clients.entrySet()) {
            Tree tree = trees.get(e.getKey());
            if (tree == null || tree.failure != null) {
                return e.getKey() + " could not be read: " + (tree == null ? "no answer" : tree.failure);
            }
        }
        return null;
    }

    private void tell(String zxid, Map<Node, Tree> trees, Map<Node, String> hashes) {
        for (Map.Entry<Node, Tree> t : trees.entrySet()) {
            for (Map.Entry<String, Znode> z : t.getValue().nodes.entrySet()) {
                out.replica(t.getKey(), "0x" + zxid, z.getKey(), z.getValue().value(),
                        Long.toString(z.getValue().answer.mzxid));
            }
        }
        for (Map.Entry<Node, String> h : hashes.entrySet()) {
            digests(h.getKey(), h.getValue());
        }
    }

    /** `hash` answers a line "zxid: digest" for every 128th zxid; a release that has no such word says so in words. */
    private void digests(Node node, String answer) {
        Matcher m = DIGEST.matcher(answer);
        while (m.find()) {
            out.digest(node, "0x" + m.group(1), m.group(2));
        }
    }

    private void leaders(Map<Node, String> answers) {
        for (Map.Entry<Node, String> e : answers.entrySet()) {
            if (find(MODE, e.getValue()).equals("leader")) {
                long zxid = Long.parseLong(find(ZXID, e.getValue()), 16);
                out.leader(e.getKey(), Long.toString(zxid >>> 32));
            }
        }
    }
}
