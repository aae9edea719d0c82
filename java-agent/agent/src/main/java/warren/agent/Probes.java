package warren.agent;

import java.util.HashSet;
import java.util.Set;
import org.objectweb.asm.Handle;
import org.objectweb.asm.Label;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;

/**
 * Coverage probes of one method: {@code LDC id; INVOKESTATIC Cov.hit(I)V} at the start of each basic block (entry, branch target,
 * fall-through of a conditional branch). One static call, no branch, no local: the frames stay as they are and only the stack
 * grows by one.
 *
 * <p>In classes of version 50 and later every branch target has a frame, so a frame is a block start. Older ones have none: there the
 * targets of forward branches are known when they come, and only the heads of backward branches go without a probe.
 *
 * <p>A probe is put before the next instruction, never at once: after the label's frame, and after a NEW, whose own label frames refer
 * to.
 *
 * <p>Also replaces two calls that are native before JDK 21 and so have no body of their own to change (docs/hooks.md).
 */
final class Probes extends MethodVisitor {
    private final int method;
    private final boolean frames;
    private final Set<Label> targets = new HashSet<>();
    private int block;
    private boolean pending;

    Probes(MethodVisitor next, int method, boolean frames) {
        super(AppClass.API, next);
        this.method = method;
        this.frames = frames;
    }

    /** Spreads (class, method, block) over 31 bits; the map's size masks it at run time. */
    static int id(int method, int block) {
        int h = (method + block * 0x9E3779B1) * 0x85EBCA6B;
        h ^= h >>> 15;
        h *= 0xC2B2AE35;
        return (h ^ h >>> 16) & 0x7fffffff;
    }

    private void probe() {
        if (pending) {
            pending = false;
            mv.visitLdcInsn(id(method, block++));
            mv.visitMethodInsn(Opcodes.INVOKESTATIC, "warren/runtime/Cov", "hit", "(I)V", false);
        }
    }

    @Override
    public void visitCode() {
        super.visitCode();
        pending = true;
    }

    @Override
    public void visitFrame(int type, int numLocal, Object[] local, int numStack, Object[] stack) {
        super.visitFrame(type, numLocal, local, numStack, stack);
        pending = true;
    }

    @Override
    public void visitLabel(Label label) {
        super.visitLabel(label);
        if (!frames && targets.contains(label)) {
            pending = true;
        }
    }

    @Override
    public void visitTryCatchBlock(Label start, Label end, Label handler, String type) {
        targets.add(handler);
        super.visitTryCatchBlock(start, end, handler, type);
    }

    @Override
    public void visitJumpInsn(int opcode, Label label) {
        probe();
        targets.add(label);
        super.visitJumpInsn(opcode, label);
        // After GOTO and JSR comes a target of its own or nothing that is ever reached by falling through.
        pending = opcode != Opcodes.GOTO && opcode != Opcodes.JSR;
    }

    @Override
    public void visitTableSwitchInsn(int min, int max, Label dflt, Label... labels) {
        probe();
        targets.add(dflt);
        java.util.Collections.addAll(targets, labels);
        super.visitTableSwitchInsn(min, max, dflt, labels);
    }

    @Override
    public void visitLookupSwitchInsn(Label dflt, int[] keys, Label[] labels) {
        probe();
        targets.add(dflt);
        java.util.Collections.addAll(targets, labels);
        super.visitLookupSwitchInsn(dflt, keys, labels);
    }

    @Override
    public void visitInsn(int opcode) {
        probe();
        super.visitInsn(opcode);
    }

    @Override
    public void visitIntInsn(int opcode, int operand) {
        probe();
        super.visitIntInsn(opcode, operand);
    }

    @Override
    public void visitVarInsn(int opcode, int index) {
        probe();
        super.visitVarInsn(opcode, index);
    }

    @Override
    public void visitTypeInsn(int opcode, String type) {
        if (opcode == Opcodes.NEW) {
            super.visitTypeInsn(opcode, type);
            probe();
        } else {
            probe();
            super.visitTypeInsn(opcode, type);
        }
    }

    @Override
    public void visitFieldInsn(int opcode, String owner, String name, String desc) {
        probe();
        super.visitFieldInsn(opcode, owner, name, desc);
    }

    @Override
    public void visitMethodInsn(int opcode, String owner, String name, String desc, boolean isInterface) {
        probe();
        if (opcode == Opcodes.INVOKEVIRTUAL && owner.equals("java/io/FileDescriptor") && name.equals("sync")) {
            super.visitMethodInsn(Opcodes.INVOKESTATIC, "warren/runtime/Files", "sync", "(Ljava/io/FileDescriptor;)V", false);
        } else if (opcode == Opcodes.INVOKEVIRTUAL && owner.equals("java/io/RandomAccessFile") && name.equals("setLength")) {
            super.visitMethodInsn(
                    Opcodes.INVOKESTATIC, "warren/runtime/Files", "setLength", "(Ljava/io/RandomAccessFile;J)V", false);
        } else {
            super.visitMethodInsn(opcode, owner, name, desc, isInterface);
        }
    }

    @Override
    public void visitInvokeDynamicInsn(String name, String desc, Handle bootstrap, Object... args) {
        probe();
        super.visitInvokeDynamicInsn(name, desc, bootstrap, args);
    }

    @Override
    public void visitLdcInsn(Object value) {
        probe();
        super.visitLdcInsn(value);
    }

    @Override
    public void visitIincInsn(int index, int increment) {
        probe();
        super.visitIincInsn(index, increment);
    }

    @Override
    public void visitMultiANewArrayInsn(String desc, int dimensions) {
        probe();
        super.visitMultiANewArrayInsn(desc, dimensions);
    }

    @Override
    public void visitMaxs(int maxStack, int maxLocals) {
        super.visitMaxs(maxStack + 1, maxLocals);
    }
}
