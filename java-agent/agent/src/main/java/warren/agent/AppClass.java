package warren.agent;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.zip.CRC32;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.MethodTooLargeException;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;
import warren.runtime.Conf;
import warren.runtime.Glob;
import warren.runtime.Hook;

/**
 * One application class, changed: bytes in, bytes out, no state; the same at load time ({@link AppTransformer}) and offline
 * ({@link Instrument}), so that ids agree.
 */
final class AppClass {
    static final int API = Opcodes.ASM9;

    /** The changed class; null if it failed. */
    byte[] bytes;
    boolean covered;
    boolean failed;
    /** What is wrong with a dictionary hook that names a method of it, and cannot do what it says; else null. Also a warning. */
    String refused;
    final List<String> warnings = new ArrayList<>();

    private AppClass() {}

    /** Returns null if nothing is to change in this class. {@code name} has slashes. */
    static AppClass transform(String name, byte[] original, Conf conf) {
        return transform(name, original, conf, null);
    }

    /** With a table: with exact probes too, which are entered into it. */
    static AppClass transform(String name, byte[] original, Conf conf, ProbeTable table) {
        String dotted = name.replace('/', '.');
        boolean included = conf.included(dotted);
        Hook[] hooks = hooksOf(dotted, conf);
        if (!included && hooks.length == 0) {
            return null;
        }
        AppClass result = new AppClass();
        result.covered = included;
        Set<String> leftAlone = new HashSet<>();
        ProbeTable.OfClass exact = null;
        try {
            exact = table == null || !included ? null : table.add(original);
        } catch (RuntimeException e) {
            table.note("class " + dotted + " is not counted: " + e);
        }
        while (true) {
            try {
                result.bytes = write(original, included, hooks, leftAlone, exact, result);
                return result;
            } catch (MethodTooLargeException e) {
                String key = e.getMethodName() + e.getDescriptor();
                if (exact != null && exact.methods.remove(key) != null) {
                    table.note("method " + dotted + "." + key + " counts as never executed: with its probes it would be over 64 KiB");
                    continue;
                }
                if (!leftAlone.add(key)) {
                    result.failed = true;
                    result.warnings.add("class " + dotted + " stays as it is: method " + key + " is over 64 KiB");
                    return result;
                }
                result.warnings.add("method " + dotted + "." + key + " stays as it is: with probes it would be over 64 KiB");
            } catch (Throwable t) {
                if (exact != null) {
                    // What the search needs comes first.
                    exact = null;
                    table.note("class " + dotted + " counts as never executed: " + t);
                    continue;
                }
                result.failed = true;
                result.warnings.add("class " + dotted + " stays as it is: " + t);
                return result;
            }
        }
    }

    private static Hook[] hooksOf(String dotted, Conf conf) {
        List<Hook> found = null;
        for (Hook hook : conf.hooks) {
            if (Glob.matches(hook.classGlob, dotted)) {
                found = found == null ? new ArrayList<Hook>() : found;
                found.add(hook);
            }
        }
        return found == null ? new Hook[0] : found.toArray(new Hook[0]);
    }

    /** Half of a probe's id: the class's own bytes, so that another version of a class has other slots. */
    private static int hash(byte[] bytes) {
        CRC32 crc = new CRC32();
        crc.update(bytes, 0, bytes.length);
        return (int) crc.getValue() * 31 + bytes.length;
    }

    private static byte[] write(byte[] original, boolean included, Hook[] hooks, Set<String> leftAlone, ProbeTable.OfClass exact,
            AppClass result) {
        ClassReader reader = new ClassReader(original);
        ClassWriter writer = new ClassWriter(reader, 0);
        Visitor visitor = new Visitor(writer, hash(original), included, hooks, leftAlone, exact);
        reader.accept(visitor, 0);
        byte[] bytes = writer.toByteArray();
        for (int i = 0; i < hooks.length; i++) {
            if (!visitor.found[i] && hooks[i].classGlob.indexOf('*') < 0) {
                result.warnings.add("dictionary hook " + hooks[i].method + " matched no method of its class");
            }
            if (visitor.found[i] && hooks[i].skippable && hooks[i].named() && !visitor.skips[i]) {
                result.refused = "dictionary hook " + hooks[i].method
                        + " is skippable, but the method returns a value, which cannot be made up: write skippable = false";
                result.warnings.add(result.refused);
            }
        }
        return bytes;
    }

    private static final class Visitor extends ClassVisitor {
        private final int hash;
        private final boolean included;
        private final Hook[] hooks;
        private final boolean[] found;
        private final boolean[] skips;
        private final Set<String> leftAlone;
        private final ProbeTable.OfClass exact;
        private boolean frames;

        Visitor(ClassVisitor next, int hash, boolean included, Hook[] hooks, Set<String> leftAlone, ProbeTable.OfClass exact) {
            super(API, next);
            this.hash = hash;
            this.included = included;
            this.hooks = hooks;
            this.found = new boolean[hooks.length];
            this.skips = new boolean[hooks.length];
            this.leftAlone = leftAlone;
            this.exact = exact;
        }

        @Override
        public void visit(int version, int access, String name, String signature, String superName, String[] interfaces) {
            frames = (version & 0xffff) >= 50;
            super.visit(version, access, name, signature, superName, interfaces);
        }

        @Override
        public MethodVisitor visitMethod(int access, String name, String desc, String signature, String[] exceptions) {
            MethodVisitor mv = super.visitMethod(access, name, desc, signature, exceptions);
            if (mv == null || (access & (Opcodes.ACC_ABSTRACT | Opcodes.ACC_NATIVE)) != 0 || leftAlone.contains(name + desc)) {
                return mv;
            }
            // Outermost last: the reader drives the probes, which drive the dictionary hook; a hook's own branch gets no probe.
            MethodVisitor out = mv;
            List<Hook> mine = null;
            for (int i = 0; i < hooks.length; i++) {
                if (hooks[i].takes(name, access)) {
                    mine = mine == null ? new ArrayList<Hook>() : mine;
                    mine.add(hooks[i]);
                    found[i] = true;
                    skips[i] |= MessageHooks.skips(hooks[i], Type.getReturnType(desc));
                }
            }
            if (mine != null) {
                out = new MessageHooks(out, access, desc, mine.toArray(new Hook[0]), frames);
            }
            JacocoMethod counted = exact == null ? null : exact.methods.get(name + desc);
            if (counted != null && counted.readable) {
                out = new ExactProbes(out, counted, exact.firsts.get(name + desc));
            }
            if (included) {
                int method = hash ^ (name + desc).hashCode() * 0x9E3779B1;
                out = new Probes(out, method, frames);
            }
            return out;
        }
    }
}
