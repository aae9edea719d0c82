import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.ratis.examples.arithmetic.expression.BinaryExpression;
import org.apache.ratis.examples.arithmetic.expression.DoubleValue;
import org.apache.ratis.examples.arithmetic.expression.Expression;
import org.apache.ratis.examples.arithmetic.expression.Variable;
import org.apache.ratis.protocol.RaftClientReply;
import org.apache.ratis.protocol.RaftGroup;
import org.apache.ratis.protocol.RaftGroupId;
import org.apache.ratis.protocol.RaftPeer;
import org.apache.ratis.protocol.RaftPeerId;
import org.apache.ratis.thirdparty.com.google.protobuf.ByteString;
import warren.workload.Client;
import warren.workload.Driver;
import warren.workload.Node;
import warren.workload.Observations;
import warren.workload.Operation;
import warren.workload.Result;
import warren.workload.Runner;
import warren.workload.Session;

/**
 * The arithmetic example's workload: one writer per counter variable with rising values, fresh variables that nobody assigns
 * twice, one sum that the servers compute, reads. No value is assigned to a variable twice, so a value says which assignment it
 * was. A session is one Ratis client.
 */
public final class RatisWorkload extends Driver {
    /** Of the first node; the next has the next one. */
    private static final int PORT = 6001;
    /** The example's own name for its group. */
    private static final String GROUP = "demoRaftGroup123";
    private static final long OBSERVE_NS = 8_000_000_000L;
    /** How long one look waits for servers that do not tell what they hold, and one server between two tries. */
    private static final long LOOK_NS = 2_000_000_000L;
    private static final long LOOK_AGAIN_NS = 50_000_000L;
    private static final long FIRST_NS = 20_000_000_000L;
    private static final long ASK_MS = 1500;
    private final long operationMs = Runner.number("session_ms", 2000);
    private final AtomicLong numbers = new AtomicLong();
    /** Variables with at least one acknowledged assignment: what a server must know. */
    private final Set<String> assigned = new ConcurrentSkipListSet<>();
    private final Map<Client, Traffic> traffic = new LinkedHashMap<>();

    private final RaftGroup group;

    private RatisWorkload(RaftGroup group) {
        this.group = group;
    }

    /** A Ratis client wants to know all servers before the first session, so they are taken from our own command line. */
    public static void main(String[] args) {
        List<RaftPeer> peers = new ArrayList<>();
        for (String arg : args) {
            int sign = arg.indexOf('=');
            if (sign > 0) {
                peers.add(new RaftPeer(RaftPeerId.valueOf(arg.substring(0, sign)), arg.substring(sign + 1) + ":" + (PORT + peers.size())));
            }
        }
        Runner.main(args, new RatisWorkload(RaftGroup.valueOf(RaftGroupId.valueOf(ByteString.copyFromUtf8(GROUP)), peers)));
    }

    /** What one traffic client remembers. */
    private static final class Traffic {
        long counter;
        long turn;
    }

    @Override
    public int port() {
        return PORT;
    }

    @Override
    public Session open(Client client, Node at, long timeoutMs) throws Exception {
        String name = client.name + "#" + numbers.incrementAndGet();
        RatisSession session = new RatisSession(name, group, peer(at), operationMs, RatisSession.PATIENT);
        try {
            session.knock(peer(at), Math.min(timeoutMs, ASK_MS));
            return session;
        } catch (Exception e) {
            session.drop();
            throw e;
        }
    }

    private static RaftPeerId peer(Node node) {
        return RaftPeerId.valueOf(node.name);
    }

    private static RatisSession of(Client client) {
        return (RatisSession) client.session();
    }

    /** Every variable that is read is assigned here: reading one that is not there is an error to the example. */
    @Override
    public void setup(Runner run) throws Exception {
        for (Client client : run.clients) {
            traffic.put(client, new Traffic());
            assignFirst(client, counter(client.index));
        }
    }

    /** Ready means only that servers listen: the first leader may yet have to be elected. */
    private void assignFirst(Client client, String name) throws Exception {
        long limit = System.nanoTime() + FIRST_NS;
        String why;
        do {
            try {
                client.session(ASK_MS);
                Result result = assign(client, name, 0);
                if (result.isOk()) {
                    return;
                }
                why = result.error();
            } catch (Exception e) {
                why = e.toString();
            }
            LockSupport.parkNanos(20_000_000L);
        } while (System.nanoTime() - limit < 0);
        throw new IOException("cannot assign " + name + ": " + why);
    }

    @Override
    public void steps(Runner run) {
        Client one = run.extra("steps");
        while (!run.stepsOver()) {
            try {
                one.session(ASK_MS);
                break;
            } catch (Exception e) {
                LockSupport.parkNanos(10_000_000L);
            }
        }
        if (one.session() == null) {
            return;
        }
        // What the servers compute is known only if both summands are.
        if (assign(one, "a", 3).isOk() && assign(one, "b", 4).isOk()) {
            Expression sum = new BinaryExpression(BinaryExpression.Op.ADD, new Variable("a"), new Variable("b"));
            if (assign(one, "sum", 7, sum).isOk()) {
                read(one, "sum");
            }
        }
        one.close();
    }

    @Override
    public void traffic(Client client) throws Exception {
        client.session(ASK_MS);
        Traffic mine = traffic.get(client);
        long turn = mine.turn++;
        switch ((int) (turn % 5)) {
            case 0:
            case 2:
                assign(client, counter(client.index), ++mine.counter);
                break;
            case 1:
                read(client, counter(client.index));
                break;
            case 3:
                assign(client, "f" + client.index + "n" + turn % 100, turn);
                break;
            default:
                read(client, counter(client.random.nextInt(3)));
        }
    }

    private static String counter(int index) {
        return "v" + index;
    }

    @Override
    public void probe(Client client) {
        for (int i = 0; i < 3; i++) {
            read(client, counter(i));
        }
    }

    @Override
    public void serve(Client client) throws Exception {
        String name = "s" + client.index;
        long value = numbers.incrementAndGet();
        Result written = assign(client, name, value);
        if (!written.isOk()) {
            throw new IOException("assign: " + written.error());
        }
        Result seen = read(client, name);
        if (!seen.isOk() || !Long.toString(value).equals(seen.value())) {
            throw new IOException("read: " + (seen.isOk() ? "saw " + seen.value() + " for " + value : seen.error()));
        }
    }

    // ---- operations

    private Result assign(Client client, String name, long value) {
        return assign(client, name, value, new DoubleValue(value));
    }

    private Result assign(Client client, String name, long value, Expression expression) {
        Result result = client.run(Operation.of("write", name).value(Long.toString(value)), () -> {
            RaftClientReply reply = of(client).assign(name, expression);
            return Result.ok().zxid(reply.getLogIndex()).mzxid(reply.getLogIndex());
        });
        if (result.isOk()) {
            assigned.add(name);
        }
        return result;
    }

    private static Result read(Client client, String name) {
        return client.run(Operation.of("read", name), () -> Result.ok().value(Long.toString(of(client).read(name))));
    }

    // ---- what can be seen of the healed cluster

    /** What the servers that were asked hold, once they had applied an index of the log; else why it is not known. */
    private static final class Look {
        final long index;
        final Map<Node, Map<String, Long>> contents = new ConcurrentHashMap<>();
        final Map<Node, String> silent = new ConcurrentHashMap<>();

        Look(long index) {
            this.index = index;
        }
    }

    /**
     * An assignment says how far the log reaches, and each server is asked for every variable, once it has applied up to there; then all that
     * again. A straggler's assignment may be applied between two questions, on one server before and on another after it was asked, and
     * indices do not tell: Ratis puts entries of its own between them. But no variable gets a value twice, so one that has the same value
     * in both looks had it all the time between, at the second look's index too, of which nothing was there yet in the first. A server
     * that does not tell, or goes on changing, is left out; the others make a round if they are more than half. These assignments are no
     * operations of the history, and no replica line tells of them: they would be judged as a client's changes in every later round.
     */
    @Override
    public boolean observe(Runner run, Observations out, boolean durable) throws Exception {
        long limit = System.nanoTime() + OBSERVE_NS;
        Set<String> names = new TreeSet<>(assigned);
        Client client = run.extra("observe");
        try {
            Look before = null;
            while (true) {
                long index = last(client, Math.max(limit, System.nanoTime() + LOOK_NS));
                if (index < 0) {
                    out.incomplete("replicas", "no assignment succeeded");
                    return false;
                }
                Look now = look(run.alive(), names, index);
                if (before != null) {
                    Look settled = settled(before, now);
                    if (settled.silent.isEmpty() || System.nanoTime() - limit >= 0) {
                        return tell(run, out, settled);
                    }
                }
                before = now;
            }
        } finally {
            client.close();
        }
    }

    /** The index of one more assignment; -1: none succeeded in time. */
    private long last(Client client, long limit) {
        while (true) {
            try {
                client.session(ASK_MS);
                return of(client).assign("last", new DoubleValue(numbers.incrementAndGet())).getLogIndex();
            } catch (Exception e) {
                if (System.nanoTime() - limit >= 0) {
                    return -1;
                }
                LockSupport.parkNanos(20_000_000L);
            }
        }
    }

    /** Asks all at once, each in a thread of its own: one that does not answer must not keep the others waiting. */
    private Look look(List<Node> nodes, Set<String> names, long index) throws InterruptedException {
        Look look = new Look(index);
        long limit = System.nanoTime() + LOOK_NS;
        List<Thread> threads = new ArrayList<>();
        for (Node node : nodes) {
            look.silent.put(node, "did not answer");
            Thread thread = new Thread(() -> {
                try {
                    look.contents.put(node, contents(node, names, index, limit));
                    look.silent.remove(node);
                } catch (Exception e) {
                    look.silent.put(node, "did not tell its variables as of " + index + ": " + e);
                }
            }, "contents-" + node);
            thread.setDaemon(true);
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        return look;
    }

    private Map<String, Long> contents(Node node, Set<String> names, long index, long limit) throws Exception {
        while (true) {
            RatisSession session = new RatisSession("contents", group, peer(node), operationMs, RatisSession.ONCE);
            try {
                Map<String, Long> seen = new TreeMap<>();
                for (String name : names) {
                    // One that answers all and slowly is not to hold the round to the run's end.
                    if (System.nanoTime() - limit > 0) {
                        throw new java.io.IOException("told " + seen.size() + " of " + names.size() + " variables in time");
                    }
                    Long value = session.applied(name, index, peer(node), ASK_MS);
                    if (value != null) {
                        seen.put(name, value);
                    }
                }
                return seen;
            } catch (Exception e) {
                if (System.nanoTime() - limit > 0) {
                    throw e;
                }
                LockSupport.parkNanos(LOOK_AGAIN_NS);
            } finally {
                session.drop();
            }
        }
    }

    /** Of a look what was so in the one before it, too. */
    private static Look settled(Look before, Look now) {
        Look settled = new Look(now.index);
        settled.silent.putAll(now.silent);
        for (Map.Entry<Node, Map<String, Long>> e : now.contents.entrySet()) {
            if (e.getValue().equals(before.contents.get(e.getKey()))) {
                settled.contents.put(e.getKey(), e.getValue());
            } else {
                settled.silent.put(e.getKey(), "did not come to rest before " + now.index);
            }
        }
        return settled;
    }

    private static boolean tell(Runner run, Observations out, Look look) {
        for (Node node : run.nodes) {
            Map<String, Long> seen = look.contents.get(node);
            if (look.silent.containsKey(node)) {
                out.incomplete("replicas", node + " " + look.silent.get(node));
            } else if (seen != null) {
                for (Map.Entry<String, Long> e : seen.entrySet()) {
                    // No variable gets a value twice, so the value itself numbers the content.
                    out.replica(node, Long.toString(look.index), e.getKey(), e.getValue().toString(), e.getValue().toString());
                }
                // Says that it was read, too: a server that has nothing at all has no line of its own else.
                out.digest(node, Long.toString(look.index), Integer.toHexString(seen.hashCode()));
            }
        }
        return 2 * look.contents.size() > run.nodes.size();
    }
}
