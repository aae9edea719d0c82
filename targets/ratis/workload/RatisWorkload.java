import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
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
    private static final long FIRST_NS = 20_000_000_000L;
    private static final long ASK_MS = 1500;
    private final long operationMs = Runner.number("session_ms", 2000);
    private final AtomicLong numbers = new AtomicLong();
    /** Variables with at least one acknowledged assignment: what a server must know. Asking for others costs a second each. */
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
        RatisSession session = new RatisSession(client.name + "#" + numbers.incrementAndGet(), group, peer(at), operationMs);
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

    /**
     * A last assignment says how far the log reaches; then each server is asked for every variable, once it has applied up to
     * there. A server that does not get there in time leaves the round incomplete. The last assignment is no operation of the
     * history, and no replica line tells of it: it would be judged as a client's change in every later round.
     */
    @Override
    public boolean observe(Runner run, Observations out, boolean durable) throws Exception {
        long limit = System.nanoTime() + OBSERVE_NS;
        Client client = run.extra("observe");
        long last = -1;
        while (last < 0) {
            if (System.nanoTime() - limit > 0) {
                out.incomplete("replicas", "no assignment succeeded");
                return false;
            }
            try {
                client.session(ASK_MS);
                last = of(client).assign("last", new DoubleValue(numbers.incrementAndGet())).getLogIndex();
            } catch (Exception e) {
                LockSupport.parkNanos(20_000_000L);
            }
        }
        boolean complete = true;
        for (Node node : run.alive()) {
            Map<String, Long> seen;
            try {
                seen = contents(node, last, limit);
            } catch (Exception e) {
                out.incomplete("replicas", node + " did not tell its variables as of " + last + ": " + e);
                complete = false;
                continue;
            }
            for (Map.Entry<String, Long> e : seen.entrySet()) {
                // No variable gets a value twice, so the value itself numbers the content.
                out.replica(node, Long.toString(last), e.getKey(), e.getValue().toString(), e.getValue().toString());
            }
            // Says that it was read, too: a server that has nothing at all has no line of its own else.
            out.digest(node, Long.toString(last), Integer.toHexString(seen.hashCode()));
        }
        client.close();
        return complete;
    }

    private Map<String, Long> contents(Node node, long index, long limit) throws Exception {
        while (true) {
            RatisSession session = new RatisSession("contents", group, peer(node), operationMs);
            try {
                Map<String, Long> seen = new TreeMap<>();
                for (String name : assigned) {
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
                LockSupport.parkNanos(20_000_000L);
            } finally {
                session.drop();
            }
        }
    }
}
