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
 * and the same zxid, its digest, who leads in which epoch. A server that cannot be read, or is at another zxid, is told apart, and the
 * others are a round if they are more than half. One object per round; the only operations of the history that it makes are reads behind
 * a sync.
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

    /** What the servers hold that are at one zxid, and of each other one that lives why it is not among them. */
    private static final class Look {
        String zxid = "";
        final Map<Node, Tree> trees = new LinkedHashMap<>();
        final Map<Node, String> status = new LinkedHashMap<>();
        Map<Node, String> hashes = new LinkedHashMap<>();
        final Map<Node, String> silent = new LinkedHashMap<>();
    }

    boolean observe() throws Exception {
        try {
            if (!open()) {
                out.incomplete("replicas", "no session at more than half of the servers");
                return false;
            }
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

    /** Opens a session at each server; one that will not have one is asked again for a while. @return whether more than half have one */
    private boolean open() {
        long limit = System.nanoTime() + sessionMs * 500_000L;
        while (true) {
            int opened = 0;
            List<Node> living = run.alive();
            for (Node node : living) {
                try {
                    held(node, sessionMs);
                    opened++;
                } catch (Exception e) {
                    // it is asked again, here and at every look
                }
            }
            if (opened == living.size() || System.nanoTime() - limit >= 0) {
                return 2 * opened > run.nodes.size();
            }
            LockSupport.parkNanos(POLL_NS);
        }
    }

    /** The session at a server, a new one where that broke. */
    private ZkSession held(Node node, int limitMs) throws Exception {
        Client client = clients.computeIfAbsent(node, at -> run.extra("check-" + at.name));
        if (client.session() == null || !client.session().usable()) {
            client.open(node, limitMs);
        }
        return (ZkSession) client.session();
    }

    /** The same, with all that was acknowledged before. */
    private ZkSession synced(Node node) throws Exception {
        ZkSession session = held(node, WORD_MS);
        int error = session.sync("/").error;
        if (error != ZkSession.OK) {
            throw new IOException("sync: code " + error);
        }
        return session;
    }

    /** All sessions but ours are closed: their ephemerals must go, at the latest when the sessions have expired. */
    private void awaitEphemerals() {
        long limit = System.nanoTime() + 2L * sessionMs * 1_000_000L;
        while (true) {
            Tree tree = anyTree();
            Map<String, Long> left = new TreeMap<>();
            for (Map.Entry<String, Znode> e : tree.nodes.entrySet()) {
                if (e.getValue().answer.ephemeralOwner != 0) {
                    left.put(e.getKey(), e.getValue().answer.ephemeralOwner);
                }
            }
            if (tree.failure == null && left.isEmpty()) {
                return;
            }
            if (System.nanoTime() - limit >= 0) {
                if (tree.failure != null) {
                    out.incomplete("leftovers", "no server shows its tree: " + tree.failure);
                    return;
                }
                for (Map.Entry<String, Long> e : left.entrySet()) {
                    out.leftover("ephemeral", e.getKey(), "0x" + Long.toHexString(e.getValue()));
                }
                return;
            }
            LockSupport.parkNanos(POLL_NS);
        }
    }

    /** That of the first server that shows it. */
    private Tree anyTree() {
        Tree tree = new Tree();
        tree.failure = new IOException("no server lives");
        for (Node node : run.alive()) {
            try {
                tree = tree(synced(node));
            } catch (Exception e) {
                tree = new Tree();
                tree.failure = e;
            }
            if (tree.failure == null) {
                return tree;
            }
        }
        return tree;
    }

    /** Read at each server behind a sync: nothing of this is legally stale by now (the check `sync`). */
    private void fresh() {
        for (Client client : clients.values()) {
            if (client.session() != null && client.session().usable()) {
                ZkWorkload.sync(client);
                for (String path : FRESH) {
                    ZkWorkload.read(client, path);
                }
            }
        }
    }

    /** Looks until all that live are at one zxid. When that does not come, what more than half showed counts; in the first half of the time it is waited for. */
    private boolean compare() throws InterruptedException {
        long begun = System.nanoTime();
        Look most = null;
        while (true) {
            boolean some = most == null && System.nanoTime() - begun >= ROUNDS_NS / 2;
            Look look = look(some);
            if (2 * look.trees.size() > run.nodes.size()) {
                most = look;
            }
            boolean all = most == look && look.silent.isEmpty();
            if (all || System.nanoTime() - begun >= ROUNDS_NS) {
                Look told = most == null ? look : most;
                silence(told);
                tell(told);
                return most != null;
            }
            LockSupport.parkNanos(POLL_NS);
        }
    }

    /** @param some whether to read the trees of some, where not all are at one zxid */
    private Look look(boolean some) throws InterruptedException {
        Look look = new Look();
        List<Node> asked = new ArrayList<>();
        for (Node node : run.alive()) {
            try {
                synced(node);
                asked.add(node);
            } catch (Exception e) {
                look.silent.put(node, "did not sync: " + e);
            }
        }
        Map<Node, String> before = words("srvr", asked);
        look.zxid = common(before);
        List<Node> equal = new ArrayList<>();
        for (Node node : asked) {
            String zxid = find(ZXID, before.get(node));
            if (!zxid.isEmpty() && zxid.equals(look.zxid)) {
                equal.add(node);
            } else {
                look.silent.put(node, "is at zxid `" + zxid + "`, others at `" + look.zxid + "`");
            }
        }
        look.status.putAll(before);
        if (!some && !look.silent.isEmpty()) {
            return look;
        }
        Map<Node, Tree> trees = trees(equal);
        look.hashes = words("hash", equal);
        Map<Node, String> after = words("srvr", equal);
        look.status.putAll(after);
        for (Node node : equal) {
            Tree tree = trees.get(node);
            if (tree == null || tree.failure != null) {
                look.silent.put(node, "could not be read: " + (tree == null ? "no answer" : tree.failure));
            } else if (!look.zxid.equals(find(ZXID, after.get(node)))) {
                look.silent.put(node, "moved on from zxid " + look.zxid + " while its tree was read");
            } else {
                look.trees.put(node, tree);
            }
        }
        return look;
    }

    private Map<Node, String> words(String word, List<Node> nodes) {
        Map<Node, String> answers = new LinkedHashMap<>();
        for (Node node : nodes) {
            String answer;
            try {
                answer = Sockets.word(clients.get(node).address, node.address, ZkWorkload.PORT, word, WORD_MS);
            } catch (IOException x) {
                answer = "";
            }
            answers.put(node, answer);
        }
        return answers;
    }

    private static String find(Pattern pattern, String text) {
        Matcher m = pattern.matcher(text);
        return m.find() ? m.group(1) : "";
    }

    /** The zxid that most servers are at; empty: none tells one. */
    private static String common(Map<Node, String> answers) {
        Map<String, Integer> counts = new TreeMap<>();
        String most = "";
        for (String answer : answers.values()) {
            String zxid = find(ZXID, answer);
            if (!zxid.isEmpty() && counts.merge(zxid, 1, Integer::sum) > counts.getOrDefault(most, 0)) {
                most = zxid;
            }
        }
        return most;
    }

    /** Reads all servers at once, one thread each. */
    private Map<Node, Tree> trees(List<Node> nodes) throws InterruptedException {
        final Map<Node, Tree> trees = new LinkedHashMap<>();
        Map<Node, Thread> threads = new LinkedHashMap<>();
        for (final Node node : nodes) {
            final ZkSession session = (ZkSession) clients.get(node).session();
            Thread thread = new Thread(() -> {
                Tree tree = tree(session);
                synchronized (trees) {
                    trees.put(node, tree);
                }
            }, "tree-" + node);
            thread.setDaemon(true);
            thread.start();
            threads.put(node, thread);
        }
        long limit = System.nanoTime() + ROUNDS_NS;
        for (Map.Entry<Node, Thread> e : threads.entrySet()) {
            e.getValue().join(Math.max(1, (limit - System.nanoTime()) / 1_000_000L));
            if (e.getValue().isAlive()) {
                // Its thread still reads there: nobody else may ask in that session.
                clients.get(e.getKey()).drop();
            }
        }
        synchronized (trees) {
            return new LinkedHashMap<>(trees);
        }
    }

    private static Tree tree(ZkSession session) {
        Tree tree = new Tree();
        Deque<String> open = new ArrayDeque<>();
        open.add("/");
        try {
            while (!open.isEmpty()) {
                String path = open.poll();
                ZkSession.Answer data = session.getData(path);
                ZkSession.Answer children = session.getChildren(path);
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

    /** Says which servers are not among those that are told. */
    private void silence(Look look) {
        if (look.silent.isEmpty()) {
            return;
        }
        List<String> all = new ArrayList<>();
        look.silent.forEach((node, why) -> all.add(node + " " + why));
        String why = String.join("; ", all);
        out.incomplete("replicas", why);
        out.incomplete("digests", why);
        out.incomplete("leader", why);
    }

    /** Nothing of a server without its tree: one that has a line here counts as read. */
    private void tell(Look look) {
        for (Map.Entry<Node, Tree> t : look.trees.entrySet()) {
            Node node = t.getKey();
            for (Map.Entry<String, Znode> z : t.getValue().nodes.entrySet()) {
                out.replica(node, "0x" + look.zxid, z.getKey(), z.getValue().value(), Long.toString(z.getValue().answer.mzxid));
            }
            digests(node, look.hashes.get(node));
            leader(node, look.status.get(node));
        }
    }

    /** `hash` answers a line "zxid: digest" for every 128th zxid; a release that has no such word says so in words. */
    private void digests(Node node, String answer) {
        Matcher m = DIGEST.matcher(answer);
        while (m.find()) {
            out.digest(node, "0x" + m.group(1), m.group(2));
        }
    }

    private void leader(Node node, String status) {
        if (find(MODE, status).equals("leader")) {
            long zxid = Long.parseLong(find(ZXID, status), 16);
            out.leader(node, Long.toString(zxid >>> 32));
        }
    }
}
