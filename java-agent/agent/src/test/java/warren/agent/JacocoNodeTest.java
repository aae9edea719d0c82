package warren.agent;

import static org.junit.jupiter.api.Assertions.*;

import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.jacoco.core.analysis.Analyzer;
import org.jacoco.core.analysis.CoverageBuilder;
import org.jacoco.core.analysis.IClassCoverage;
import org.jacoco.core.tools.ExecFileLoader;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** One real ZooKeeper server, fault-free, once under JaCoCo's own agent and once under ours: as many lines and branches, of as many. */
class JacocoNodeTest {
    private static final String JAVA = System.getProperty("java.home") + "/bin/java";
    private static final Path REPOSITORY = Path.of(System.getProperty("user.home"), ".m2/repository");
    private static final String[] OWN = {"org/apache/zookeeper/zookeeper/3.6.3/zookeeper-3.6.3.jar",
        "org/apache/zookeeper/zookeeper-jute/3.6.3/zookeeper-jute-3.6.3.jar"};
    private static final String[] OTHERS = {"io/netty/netty-handler/4.1.63.Final/netty-handler-4.1.63.Final.jar",
        "io/netty/netty-transport/4.1.63.Final/netty-transport-4.1.63.Final.jar", "io/netty/netty-common/4.1.63.Final/netty-common-4.1.63.Final.jar",
        "io/netty/netty-buffer/4.1.63.Final/netty-buffer-4.1.63.Final.jar", "log4j/log4j/1.2.17/log4j-1.2.17.jar",
        "org/slf4j/slf4j-api/1.7.25/slf4j-api-1.7.25.jar", "org/slf4j/slf4j-log4j12/1.7.25/slf4j-log4j12-1.7.25.jar",
        "org/apache/yetus/audience-annotations/0.5.0/audience-annotations-0.5.0.jar",
        "org/xerial/snappy/snappy-java/1.1.7.7/snappy-java-1.1.7.7.jar", "io/dropwizard/metrics/metrics-core/3.2.5/metrics-core-3.2.5.jar"};

    @Test
    void aZookeeperServerCoversWhatJacocoSays(@TempDir Path dir) throws Exception {
        List<String> own = there(OWN);
        List<String> others = there(OTHERS);
        Assumptions.assumeTrue(own.size() + others.size() == OWN.length + OTHERS.length,
                "ZooKeeper 3.6.3 and what it needs is not in the local Maven repository: not checked");
        String others1 = String.join(File.pathSeparator, others);
        String client = String.join(File.pathSeparator, own) + File.pathSeparator + others1;

        Path exec = dir.resolve("jacoco.exec");
        String agent = Path.of(org.jacoco.agent.rt.RT.class.getProtectionDomain().getCodeSource().getLocation().toURI()).toString();
        Path config = config(dir.resolve("theirs"));
        serve(new ProcessBuilder(JAVA, "-javaagent:" + agent + "=destfile=" + exec, "-cp", client, "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                config.toString()), config, client);

        List<String> measured = new ArrayList<>();
        List<String> instrument = new ArrayList<>(List.of(JAVA, "-cp", Slot.jar("agent") + File.pathSeparator + Slot.jar("runtime"),
                "warren.agent.Instrument", "measure", dir.resolve("agent.conf").toString(), dir.resolve("table").toString()));
        List<String> conf = new ArrayList<>(List.of("include org.apache.zookeeper.**", "include org.apache.jute.**"));
        for (int i = 0; i < own.size(); i++) {
            measured.add(dir.resolve(i + ".jar").toString());
            instrument.addAll(List.of(own.get(i), measured.get(i)));
        }
        Stream.concat(measured.stream(), others.stream()).forEach(jar -> conf.add("instrumented " + jar));
        Map<String, JacocoTest.Listed> listed;
        byte[] map;
        try (Slot slot = new Slot(dir, conf.toArray(new String[0]))) {
            Process p = new ProcessBuilder(instrument).redirectErrorStream(true).start();
            String said = new String(p.getInputStream().readAllBytes());
            assertEquals(0, p.waitFor(), said);
            Files.write(dir.resolve("probes.map"), new byte[1 << 16]);
            config = config(dir.resolve("ours"));
            serve(new ProcessBuilder(slot.command(System.getProperty("java.home"), String.join(File.pathSeparator, measured) + File.pathSeparator + others1,
                    "org.apache.zookeeper.server.quorum.QuorumPeerMain", config.toString())), config, client);
            assertEquals(0, slot.header(Slot.CLASSES), "nothing was transformed at load time");
            listed = JacocoTest.read(Files.readString(dir.resolve("table")));
            map = Files.readAllBytes(dir.resolve("probes.map"));
        }

        ExecFileLoader loader = new ExecFileLoader();
        loader.load(exec.toFile());
        CoverageBuilder builder = new CoverageBuilder();
        for (String jar : own) {
            new Analyzer(loader.getExecutionDataStore(), builder).analyzeAll(new File(jar));
        }
        int[] theirs = new int[4];
        for (IClassCoverage c : builder.getClasses()) {
            add(theirs, JacocoTest.Counters.of(c));
        }
        int[] ours = new int[4];
        for (JacocoTest.Listed c : listed.values()) {
            boolean[] executed = new boolean[c.probes];
            for (int i = 0; i < executed.length; i++) {
                executed[i] = map[c.first + i] != 0;
            }
            add(ours, c.count(executed));
        }
        String both = String.format("JaCoCo: lines %d of %d, branches %d of %d; ours: lines %d of %d, branches %d of %d", theirs[0], theirs[1],
                theirs[2], theirs[3], ours[0], ours[1], ours[2], ours[3]);
        System.out.println(both);
        assertEquals(theirs[1], ours[1], both);
        assertEquals(theirs[3], ours[3], both);
        assertTrue(theirs[0] > 1000 && theirs[2] > 200, both);
        // Two runs of a server differ a little, whoever counts.
        assertEquals(100.0 * theirs[0] / theirs[1], 100.0 * ours[0] / ours[1], 2.0, both);
        assertEquals(100.0 * theirs[2] / theirs[3], 100.0 * ours[2] / ours[3], 2.0, both);
    }

    private static List<String> there(String[] jars) {
        return Stream.of(jars).map(REPOSITORY::resolve).filter(Files::exists).map(Path::toString).toList();
    }

    private static void add(int[] sums, JacocoTest.Counters c) {
        sums[0] += c.lines();
        sums[1] += c.ofLines();
        sums[2] += c.branches();
        sums[3] += c.ofBranches();
    }

    private static Path config(Path dir) throws IOException {
        int port;
        try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1"))) {
            port = free.getLocalPort();
        }
        Files.createDirectories(dir.resolve("data"));
        return Files.writeString(dir.resolve("zoo.cfg"), "tickTime=500\ndataDir=" + dir.resolve("data") + "\nclientPort=" + port
                + "\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n");
    }

    /** Starts the server, lets a client do some things, ends it as a user would. */
    private static void serve(ProcessBuilder server, Path config, String classPath) throws Exception {
        int port = Files.readAllLines(config).stream().filter(l -> l.startsWith("clientPort=")).mapToInt(l -> Integer.parseInt(l.substring(11)))
                .findFirst().orElseThrow();
        File log = config.resolveSibling("log").toFile();
        Process p = server.redirectErrorStream(true).redirectOutput(log).directory(config.getParent().toFile()).start();
        try {
            assertTrue(Slot.await(() -> answers(port)), () -> "no server: " + text(log));
            Process client = new ProcessBuilder(JAVA, "-cp", classPath, "org.apache.zookeeper.ZooKeeperMain", "-server", "127.0.0.1:" + port)
                    .redirectErrorStream(true).redirectOutput(config.resolveSibling("client").toFile()).start();
            try (OutputStream in = client.getOutputStream()) {
                in.write(("create /a x\nget /a\nset /a y\ncreate -e /a/e z\nls /a\nstat /a\ndelete /a/e\ncreate /a x\ndeleteall /a\nquit\n")
                        .getBytes(StandardCharsets.UTF_8));
            }
            assertTrue(client.waitFor(60, TimeUnit.SECONDS), "the client does not end");
            p.destroy();
            assertTrue(p.waitFor(30, TimeUnit.SECONDS), "the server does not end");
        } finally {
            p.destroyForcibly();
        }
    }

    private static String text(File log) {
        try {
            return Files.readString(log.toPath());
        } catch (IOException e) {
            return e.toString();
        }
    }

    private static boolean answers(int port) {
        try (Socket s = new Socket()) {
            s.connect(new InetSocketAddress("127.0.0.1", port), 1000);
            return true;
        } catch (IOException e) {
            return false;
        }
    }
}
