package warren.agent;

import static org.junit.jupiter.api.Assertions.*;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.Label;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import warren.runtime.Conf;

/** Coverage probes: they verify, mean the same at load time and offline, and a class that cannot take them is a warning. */
class InstrumentTest {
    private static final String JAVA = System.getProperty("java.home");

    static Stream<String> javas() {
        return Slot.javas().stream();
    }

    /** Each JDK with the shapes of old compilers, the newer ones with those of newer compilers too. */
    static Stream<Arguments> programs() {
        return javas().flatMap(java -> Integer.parseInt(Slot.version(new File(java))) < 17
                ? Stream.of(Arguments.of(java, "Branches")) : Stream.of(Arguments.of(java, "Branches"), Arguments.of(java, "Modern")));
    }

    @ParameterizedTest
    @MethodSource("programs")
    void loadTimeAndOfflineSetTheSameSlots(String java, String program, @TempDir Path dir) throws Exception {
        Path one = Files.createDirectories(dir.resolve("load"));
        byte[] map;
        try (Slot slot = new Slot(one, "include sample.**")) {
            String out = slot.run(java, Slot.testClasses(), "sample." + program, "5");
            assertTrue(out.startsWith("0\n"), out);
            map = Files.readAllBytes(one.resolve("cov.map"));
            assertTrue(slot.covered() > 40, "slots: " + slot.covered());
            assertTrue(slot.header(Slot.CLASSES) >= 4);
            assertEquals(0, slot.header(Slot.FAILURES));
            int before = slot.covered();
            slot.run(java, Slot.testClasses(), "sample." + program, "5");
            assertEquals(before, slot.covered(), "the same run, the same slots");
            slot.run(java, Slot.testClasses(), "sample." + program, "101");
            assertTrue(slot.covered() > before, "another branch, another slot");
        }
        Path two = Files.createDirectories(dir.resolve("offline"));
        File jar = jar(dir.resolve("in.jar"), program);
        File out = dir.resolve("out.jar").toFile();
        try (Slot slot = new Slot(two, "include sample.**", "instrumented " + out)) {
            Process p = new ProcessBuilder(JAVA + "/bin/java", "-cp", Slot.jar("agent") + File.pathSeparator + Slot.jar("runtime"),
                    "warren.agent.Instrument", "instrument", two.resolve("agent.conf").toString(), jar.getPath(), out.getPath())
                    .redirectErrorStream(true).start();
            String said = new String(p.getInputStream().readAllBytes());
            assertEquals(0, p.waitFor(), said);
            assertTrue(said.matches("\\d+ classes .*\\n"), said);
            String ran = slot.run(java, out.getPath(), "sample." + program, "5");
            assertTrue(ran.startsWith("0\n"), ran);
            assertEquals(0, slot.header(Slot.CLASSES), "nothing was transformed at load time");
            assertArrayEquals(map, Files.readAllBytes(two.resolve("cov.map")));
            Path conf = Files.createDirectories(dir.resolve("conf/webapps"));
            Files.write(conf.resolve("site.xml"), new byte[0]);
            slot.run(java, out.getPath() + File.pathSeparator + conf.getParent(), "sample.Branches", "5");
            assertEquals(0, slot.header(Slot.CLASSES), "a folder of configuration has nothing to transform");
            assertArrayEquals(map, Files.readAllBytes(two.resolve("cov.map")), "no class has probes twice");
            slot.run(java, Slot.testClasses() + File.pathSeparator + out.getPath(), "sample.Branches", "5");
            assertTrue(slot.header(Slot.CLASSES) > 0, "a folder of classes has");
        }
    }

    private static File jar(Path to, String prefix) throws Exception {
        try (ZipOutputStream zip = new ZipOutputStream(Files.newOutputStream(to));
                Stream<Path> files = Files.list(Path.of(Slot.testClasses(), "sample"))) {
            for (Path file : files.sorted().toList()) {
                if (file.getFileName().toString().startsWith(prefix)) {
                    zip.putNextEntry(new ZipEntry("sample/" + file.getFileName()));
                    zip.write(Files.readAllBytes(file));
                }
            }
        }
        return to.toFile();
    }

    /** Every class of the real target verifies with probes and with hooks on all its methods, if Maven has it here. */
    @Test
    void zookeeperVerifies(@TempDir Path dir) throws Exception {
        List<String> jars = new ArrayList<>();
        Path repository = Path.of(System.getProperty("user.home"), ".m2/repository");
        for (String jar : new String[] {"org/apache/zookeeper/zookeeper/3.6.3/zookeeper-3.6.3.jar",
            "org/apache/zookeeper/zookeeper-jute/3.6.3/zookeeper-jute-3.6.3.jar", "log4j/log4j/1.2.17/log4j-1.2.17.jar",
            "org/slf4j/slf4j-api/1.7.25/slf4j-api-1.7.25.jar"}) {
            if (Files.exists(repository.resolve(jar))) {
                jars.add(repository.resolve(jar).toString());
            }
        }
        Assumptions.assumeTrue(!jars.isEmpty() && jars.get(0).contains("zookeeper-3.6.3"),
                "ZooKeeper 3.6.3 is not in the local Maven repository: not checked");
        try (Slot slot = new Slot(dir, "include **", "exclude sample.**",
                "hook org.apache.zookeeper.**.* kind=msg-send place=both message=arg0 peer=arg1 skippable=true")) {
            List<String> args = new ArrayList<>(List.of("sample.LoadAll"));
            args.addAll(jars);
            String out = slot.run(JAVA, Slot.testClasses() + File.pathSeparator + String.join(File.pathSeparator, jars),
                    args.toArray(new String[0]));
            String last = out.lines().filter(l -> l.startsWith("linked ")).findFirst().orElse(out);
            assertTrue(last.endsWith(" errors 0"), out);
            int linked = Integer.parseInt(last.split(" ")[1]);
            assertTrue(linked > 500, last);
            assertEquals(0, slot.header(Slot.FAILURES), () -> slot.warnings().toString());
        }
    }

    @Test
    void oldClassesWithoutFramesTakeProbes() throws Exception {
        ClassWriter w = new ClassWriter(ClassWriter.COMPUTE_MAXS);
        w.visit(Opcodes.V1_4, Opcodes.ACC_PUBLIC, "old/Sum", null, "java/lang/Object", null);
        MethodVisitor m = w.visitMethod(Opcodes.ACC_PUBLIC | Opcodes.ACC_STATIC, "to", "(I)I", null, null);
        Label head = new Label();
        Label end = new Label();
        m.visitCode();
        m.visitInsn(Opcodes.ICONST_0);
        m.visitVarInsn(Opcodes.ISTORE, 1);
        m.visitLabel(head);
        m.visitVarInsn(Opcodes.ILOAD, 0);
        m.visitJumpInsn(Opcodes.IFLE, end);
        m.visitVarInsn(Opcodes.ILOAD, 1);
        m.visitVarInsn(Opcodes.ILOAD, 0);
        m.visitInsn(Opcodes.IADD);
        m.visitVarInsn(Opcodes.ISTORE, 1);
        m.visitIincInsn(0, -1);
        m.visitJumpInsn(Opcodes.GOTO, head);
        m.visitLabel(end);
        m.visitVarInsn(Opcodes.ILOAD, 1);
        m.visitInsn(Opcodes.IRETURN);
        m.visitMaxs(0, 0);
        m.visitEnd();
        w.visitEnd();
        AppClass changed = AppClass.transform("old/Sum", w.toByteArray(), conf("include **"));
        assertTrue(changed.covered && !changed.failed, changed.warnings.toString());
        assertEquals(3, count(changed.bytes), "entry, fall-through, end");
        Class<?> c = define("old.Sum", changed.bytes);
        assertEquals(10, c.getMethod("to", int.class).invoke(null, 4));
    }

    /** Class {@code old.Big}: {@code big} has so many branches, {@code small} three. */
    static byte[] classWithBranches(int big) {
        ClassWriter w = new ClassWriter(ClassWriter.COMPUTE_MAXS);
        w.visit(Opcodes.V1_4, Opcodes.ACC_PUBLIC, "old/Big", null, "java/lang/Object", null);
        for (String name : new String[] {"big", "small"}) {
            MethodVisitor m = w.visitMethod(Opcodes.ACC_PUBLIC | Opcodes.ACC_STATIC, name, "(I)I", null, null);
            m.visitCode();
            for (int i = 0; i < (name.equals("big") ? big : 3); i++) {
                Label next = new Label();
                m.visitVarInsn(Opcodes.ILOAD, 0);
                m.visitJumpInsn(Opcodes.IFNE, next);
                m.visitLabel(next);
            }
            m.visitVarInsn(Opcodes.ILOAD, 0);
            m.visitInsn(Opcodes.IRETURN);
            m.visitMaxs(0, 0);
            m.visitEnd();
        }
        w.visitEnd();
        return w.toByteArray();
    }

    @Test
    void aMethodThatWouldBeTooLargeStaysAsItIs() throws Exception {
        AppClass changed = AppClass.transform("old/Big", classWithBranches(12000), conf("include **"));
        assertFalse(changed.failed);
        assertEquals(1, changed.warnings.size());
        assertTrue(changed.warnings.get(0).contains("old.Big.big(I)I"), changed.warnings.toString());
        assertEquals(7, define("old.Big", changed.bytes).getMethod("big", int.class).invoke(null, 7));
        assertTrue(count(changed.bytes) >= 4, "the other method has its probes");
    }

    @Test
    void whatIsNotIncludedIsNotTouchedAndRubbishIsAWarning() throws Exception {
        assertNull(AppClass.transform("org/x/A", new byte[] {1, 2, 3}, conf("include com.**")));
        AppClass bad = AppClass.transform("org/x/A", new byte[] {1, 2, 3}, conf("include org.**"));
        assertTrue(bad.failed && bad.warnings.get(0).contains("org.x.A"));
    }

    @Test
    void aHookThatMatchesNothingIsAWarning() throws Exception {
        byte[] bytes = Files.readAllBytes(Path.of(Slot.testClasses(), "sample/Puppet$Wire.class"));
        AppClass c = AppClass.transform("sample/Puppet$Wire", bytes, conf("hook sample.Puppet$Wire.gone kind=msg-send"));
        assertFalse(c.failed);
        assertTrue(c.warnings.get(0).contains("sample.Puppet$Wire.gone"));
    }

    /** Ahead of time, where dictionary errors are told, and nothing is left that looks done. */
    @Test
    void aMessageThatCannotBeLostIsRefused(@TempDir Path dir) throws Exception {
        File in = jar(dir.resolve("in.jar"), "Puppet");
        File out = dir.resolve("out.jar").toFile();
        String hook = "hook sample.Puppet$Wire.offer kind=msg-send skippable=";
        IOException e = assertThrows(IOException.class, () -> Instrument.jar(conf(hook + "true"), in, out, null));
        assertTrue(e.getMessage().contains("sample.Puppet$Wire.offer is skippable, but the method returns a value"), e.getMessage());
        assertFalse(out.exists());
        Instrument.jar(conf(hook + "false"), in, out, null);
        Instrument.jar(conf("hook sample.Puppet$Wire.* kind=msg-send skippable=true"), in, out, null);
    }

    @Test
    void aWrongStartIsRefusedWithAReason(@TempDir Path dir) throws Exception {
        try (Slot slot = new Slot(dir, "nonsense here")) {
            String out = slot.run(JAVA, Slot.testClasses(), "sample.Branches");
            assertFalse(out.startsWith("0\n"));
            assertTrue(out.contains("unknown word `nonsense`"), out);
        }
    }

    @Test
    void dumpWritesTransformedClasses(@TempDir Path dir) throws Exception {
        try (Slot slot = new Slot(dir, "include sample.Branches", "dump " + dir.resolve("dump"))) {
            slot.run(JAVA, Slot.testClasses(), "sample.Branches");
            byte[] dumped = Files.readAllBytes(dir.resolve("dump/sample/Branches.class"));
            assertTrue(count(dumped) > 20);
        }
    }

    private static Conf conf(String... lines) throws Exception {
        String[] all = new String[lines.length + 1];
        all[0] = "version 1";
        System.arraycopy(lines, 0, all, 1, lines.length);
        return Conf.parse(all, "test");
    }

    private static int count(byte[] bytes) {
        int[] calls = {0};
        new org.objectweb.asm.ClassReader(bytes).accept(new org.objectweb.asm.ClassVisitor(AppClass.API) {
            @Override
            public MethodVisitor visitMethod(int access, String name, String desc, String sig, String[] exceptions) {
                return new MethodVisitor(AppClass.API) {
                    @Override
                    public void visitMethodInsn(int opcode, String owner, String method, String d, boolean itf) {
                        calls[0] += owner.equals("warren/runtime/Cov") ? 1 : 0;
                    }
                };
            }
        }, 0);
        return calls[0];
    }

    private static Class<?> define(String name, byte[] bytes) {
        return new ClassLoader(InstrumentTest.class.getClassLoader()) {
            Class<?> define() {
                return defineClass(name, bytes, 0, bytes.length);
            }
        }.define();
    }
}
