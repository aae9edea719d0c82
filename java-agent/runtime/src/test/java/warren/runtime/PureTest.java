package warren.runtime;

import static org.junit.jupiter.api.Assertions.*;

import java.io.File;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Values in, values out: globs, configuration, expressions, paths, tables; and both kinds of mapped memory. */
class PureTest {
    @Test
    void globs() {
        assertTrue(Glob.matches("org.apache.**", "org.apache.zookeeper.Foo"));
        assertTrue(Glob.matches("*.FileTxnLog.commit", "org.x.FileTxnLog.commit"));
        assertTrue(Glob.matches("a*b*c", "aXXbYYbZc"));
        assertFalse(Glob.matches("a*b*c", "aXXbYYbZ"));
        assertFalse(Glob.matches("abc", "abcd"));
        assertTrue(Glob.matches("*", ""));
        assertTrue(Glob.inOrder(new String[] {"*.a", "*.c"}, new String[] {"x.a", "x.b", "x.c"}));
        assertFalse(Glob.inOrder(new String[] {"*.c", "*.a"}, new String[] {"x.a", "x.b", "x.c"}));
        assertTrue(Glob.inOrder(new String[] {}, new String[] {"x.a"}));
    }

    @Test
    void configuration() throws Exception {
        Conf c = Conf.parse(new String[] {
            "# comment", "version 1", "node a 127.0.0.11", "node b 127.0.0.12", "include org.x.**", "exclude org.x.gen.*",
            "role leader *.lead", "role follower *.follow", "role leader *.Boss.run",
            "hook org.x.P.send kind=msg-send message='a b' peer=this.sock skippable=true",
            "background 00000000000000ff", "background *.ping", "log stdout", "instrumented /x.jar",
        }, "test");
        assertEquals(0x7f00000c, c.nodeIps[1]);
        assertTrue(c.included("org.x.A") && !c.included("org.x.gen.A") && !c.included("com.A"));
        assertArrayEquals(new String[] {"leader", "follower"}, c.roleNames);
        assertArrayEquals(new int[] {1, 2, 1}, c.roleOf);
        assertArrayEquals(new long[] {255}, c.backgroundIds);
        assertArrayEquals(new String[] {"*.ping"}, c.backgroundFrames);
        assertTrue(c.hooks[0].before && !c.hooks[0].after && c.hooks[0].skippable);
        assertEquals("a b", c.hooks[0].message.eval(null, null, null));
    }

    @Test
    void configurationErrorsNameTheLine() {
        String[][] bad = {
            {"version 2"}, {"version 1", "includes x"}, {"version 1", "node a"}, {"version 1", "node a 1.2.3"},
            {"version 1", "hook org.x.P.send kind=send"}, {"version 1", "hook x kind=msg-send"},
            {"version 1", "hook org.x.P.send kind=msg-send message=foo"}, {"include x"},
            {"version 1", "hook org.x.P.send kind=msg-receive place=before skippable=true"},
            {"version 1", "hook org.x.P.send kind=msg-send place=after skippable=true"},
        };
        for (String[] lines : bad) {
            IOException e = assertThrows(IOException.class, () -> Conf.parse(lines, "agent.conf"));
            assertTrue(e.getMessage().startsWith("agent.conf"), e.getMessage());
        }
    }

    @SuppressWarnings("unused")
    static final class Packet {
        private final int type = 5;
        private final Packet next;

        Packet(Packet next) {
            this.next = next;
        }

        Packet next() {
            return next;
        }
    }

    interface Named {
        default String name() {
            return "by default";
        }
    }

    interface Local extends Named {}

    static final class Peer implements Local {}

    @Test
    void expressions() throws Exception {
        assertEquals("by default", Expr.parse("this.name()").eval(new Peer(), new Object[0], null), "an interface of an interface");
        Expr missing = Expr.parse("this.missing");
        for (int i = 0; i < 2; i++) {
            assertThrows(ReflectiveOperationException.class, () -> missing.eval(new Peer(), new Object[0], null), "each time");
        }
        for (String nowhere : new String[] {"no.such.Type::x", "java.lang.String::nothing", "java.lang.String::length()"}) {
            Expr none = Expr.parse(nowhere);
            for (int i = 0; i < 2; i++) {
                assertThrows(ReflectiveOperationException.class, () -> none.eval(new Peer(), new Object[0], null), nowhere);
            }
            assertTrue(none.isKnown(0), nowhere + " is looked for once");
        }
        Object self = new Packet(new Packet(null));
        Object[] args = {"x", self};
        assertEquals(5, Expr.parse("this.next().type").eval(self, args, null));
        assertEquals(5, Expr.parse("arg1.next.type").eval(null, args, null));
        assertEquals("x", Expr.parse("arg0").eval(self, args, null));
        assertEquals(1, Expr.parse("arg0.length()").eval(self, args, null));
        assertEquals("r", Expr.parse("ret").eval(self, args, "r"));
        assertNull(Expr.parse("this.next.next.type").eval(self, args, null), "a null on the way gives null");
        assertThrows(ReflectiveOperationException.class, () -> Expr.parse("this.missing").eval(self, args, null));
        for (String bad : new String[] {"foo", "argX", "arg0.", "this..x", ""}) {
            assertThrows(IOException.class, () -> Expr.parse(bad), bad);
        }
    }

    @Test
    void addresses() {
        assertEquals(0x7f00000b, Peers.parseIp("127.0.0.11"));
        for (String bad : new String[] {"", "1.2.3", "1.2.3.4.5", "256.1.1.1", "a.b.c.d", "1..2.3"}) {
            assertEquals(0, Peers.parseIp(bad), bad);
        }
        assertEquals(0x7f00000c, Peers.findIp("zk2/127.0.0.12:2888"));
        assertEquals(0, Peers.findIp("session 12"));
    }

    @Test
    void paths() {
        String[] logs = {"stdout", "*/logs/*.log"};
        assertTrue(Paths.isPoint("/n/zk1/data/log.1", "/n/zk1/", logs));
        assertTrue(Paths.isPoint("data/log.1", "/n/zk1/", logs));
        assertFalse(Paths.isPoint("/n/zk1/stdout", "/n/zk1/", logs));
        assertFalse(Paths.isPoint("stdout", "/n/zk1/", logs));
        assertFalse(Paths.isPoint("/n/zk1/logs/a.log", "/n/zk1/", logs));
        assertFalse(Paths.isPoint("/proc/self/oom_adj", "/n/zk1/", logs));
        assertFalse(Paths.isPoint("/dev/null", "/n/zk1/", logs));
        assertTrue(Paths.isPoint("/dev/shm/n/zk1/data/log.1", "/dev/shm/n/zk1/", logs));
        assertTrue(Paths.isPoint("data/log.1", "/dev/shm/n/zk1/", logs));
        assertFalse(Paths.isPoint("/dev/shm/other", "/dev/shm/n/zk1/", logs));
        assertFalse(Paths.isPoint("logs/a.log", "/dev/shm/n/zk1/", logs));
        assertEquals("data/log.1", Paths.relative("/n/zk1/data/log.1", "/n/zk1/"));
    }

    @Test
    void classification() throws Exception {
        Conf c = Conf.parse(new String[] {
            "version 1", "role leader *.lead", "skip *.metrics", "background *.ping",
            "hook org.x.P.send kind=msg-send", "hook org.x.P.recv kind=msg-receive"}, "test");
        Stack s = Stacks.classify(raw("org.x.Log.append", "org.x.Q.lead"), c);
        assertTrue(s.point && s.role == 1 && !s.background && !s.inMessageSend);
        assertFalse(Stacks.classify(raw("org.x.Log.append", "org.apache.log4j.Appender.append"), c).point, "logging");
        assertFalse(Stacks.classify(raw("java.util.logging.FileHandler.publish", "org.x.A.f"), c).point, "jul");
        assertFalse(Stacks.classify(raw("org.x.A.f", "org.x.A.metrics"), c).point, "skip");
        assertFalse(Stacks.classify(raw("java.lang.Thread.run"), c).point, "empty");
        assertTrue(Stacks.classify(raw("org.x.A.ping"), c).background);
        assertTrue(Stacks.classify(raw("org.x.S.flush", "org.x.P.send"), c).inMessageSend);
        assertTrue(Stacks.classify(raw("org.x.S.read", "org.x.P.recv"), c).inMessageReceive);
        Conf log = Conf.parse(new String[] {"version 1", "hook org.x.Wal.append kind=write message=arg0"}, "test");
        Hook record = log.hooks[0];
        assertTrue(record.kind == Kinds.WRITE && record.before && !record.after && record.uses(0));
        Stack own = Stacks.classify(raw("org.x.S.flush", "org.x.Wal.append"), log);
        assertTrue(own.point && !own.inMessageSend && !own.inMessageReceive, "a record is no message: the bytes below are points");
    }

    /** What a hook takes, and which frames are of it. */
    @Test
    void hookedMethods() throws Exception {
        int plain = 1, hidden = 2, bridge = 0x1041, synthetic = 0x100a;
        Hook one = Hook.parse("org.x.P.on kind=msg-receive");
        assertTrue(one.takes("on", plain) && one.takes("on", hidden) && !one.takes("on", bridge) && !one.takes("off", plain));
        Hook all = Hook.parse("org.x.P.* kind=msg-receive");
        assertTrue(all.takes("on", plain) && all.takes("on", 4) && all.takes("on", 0));
        assertFalse(all.takes("on", hidden) || all.takes("on", bridge) || all.takes("lambda$on$0", synthetic)
                || all.takes("access$000", 0x1008) || all.takes("<init>", plain) || all.takes("<clinit>", 8));
        assertTrue(all.covers("org.x.P.on") && !all.covers("org.x.P.<init>") && !all.covers("org.x.P.lambda$on")
                && !all.covers("org.x.P.access$000") && !all.covers("org.x.Q.on"));
        Hook lambda = Hook.parse("org.x.P.lambda$on* kind=msg-receive");
        assertTrue(lambda.takes("lambda$on$0", synthetic) && !lambda.takes("lambda$off$0", synthetic) && !lambda.takes("on", plain));
        assertTrue(lambda.covers("org.x.P.lambda$on"));
        // A frame has no number: however the hook writes it, it is of that frame.
        for (String body : new String[] {"lambda$on$0", "lambda$on$*"}) {
            Hook numbered = Hook.parse("org.x.P." + body + " kind=msg-receive");
            assertTrue(numbered.takes("lambda$on$0", synthetic) && numbered.covers("org.x.P.lambda$on"), body);
            assertFalse(numbered.takes("lambda$off$0", synthetic) || numbered.covers("org.x.P.lambda$off"), body);
        }
    }

    private static String[] raw(String... frames) {
        String[] out = new String[frames.length * 3];
        for (int i = 0; i < frames.length; i++) {
            int dot = frames[i].lastIndexOf('.');
            out[3 * i] = frames[i].substring(0, dot);
            out[3 * i + 1] = frames[i].substring(dot + 1);
            out[3 * i + 2] = "1";
        }
        return out;
    }

    @Test
    void longTableKeepsAllUpToItsLimit() {
        LongTable t = new LongTable(1000);
        for (long i = 0; i < 2000; i++) {
            t.put(i * 0x1_0000_0001L + 7, i);
        }
        for (long i = 0; i < 2000; i++) {
            assertEquals(i < 1000 ? i : null, t.get(i * 0x1_0000_0001L + 7));
        }
    }

    @Test
    void bothMemoriesAgree(@TempDir Path dir) throws Exception {
        for (boolean java8 : new boolean[] {true, false}) {
            File file = dir.resolve("m" + java8).toFile();
            Files.write(file.toPath(), new byte[4096]);
            MappedByteBuffer buffer;
            try (RandomAccessFile raf = new RandomAccessFile(file, "rw")) {
                buffer = raf.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, 4096);
            }
            Mem m = Mem.over(buffer, java8);
            assertEquals(java8 ? "Mem8" : "Mem9", m.getClass().getSimpleName());
            m.put(8, 0x0102030405060708L);
            assertEquals(0x0102030405060708L, m.get(8));
            assertEquals(0x0102030405060708L, m.add(8, 1));
            assertFalse(m.cas(8, 1, 2));
            assertTrue(m.cas(8, 0x0102030405060709L, 2));
            m.putByte(100, (byte) 9);
            assertEquals(9, m.getByte(100));
            m.write(200, new byte[] {1, 2, 3});
            assertArrayEquals(new byte[] {1, 2, 3}, m.read(200, 3));
            assertThrows(IndexOutOfBoundsException.class, () -> m.get(4096));
            assertThrows(IndexOutOfBoundsException.class, () -> m.put(-8, 1));
            ByteBuffer seen = ByteBuffer.wrap(Files.readAllBytes(file.toPath())).order(ByteOrder.LITTLE_ENDIAN);
            assertEquals(2, seen.getLong(8), "little endian in the file");
        }
    }

    @Test
    void fnvOfTheOccurrenceKey() {
        ByteBuffer b = ByteBuffer.allocate(10).order(ByteOrder.LITTLE_ENDIAN).putLong(0x1122334455667788L).put((byte) 3).put((byte) 1);
        assertEquals(Fnv.of(b.array()), Fnv.occurrence(0x1122334455667788L, 3, 1));
    }
}
