package warren.agent;

import org.objectweb.asm.Label;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;
import warren.runtime.Hook;

/**
 * Dictionary hooks of one method: a call of {@code Dict.enter} at its entry, {@code Dict.exit} before each return. A void method whose
 * hook is skippable calls {@code Dict.lost} instead, and returns at once when that says so: the only branch we insert, at a place where
 * the frame is the method's initial one.
 *
 * <p>At an exit, an argument whose variable the method has overwritten on the way is not passed: the verifier would refuse a
 * variable whose type is not known here.
 */
final class MessageHooks extends MethodVisitor {
    private final boolean isStatic;
    private final Type[] args;
    private final Type ret;
    private final Hook[] hooks;
    private final boolean frames;
    private final boolean[] overwritten;
    private int extra;

    MessageHooks(MethodVisitor next, int access, String desc, Hook[] hooks, boolean frames) {
        super(AppClass.API, next);
        isStatic = (access & Opcodes.ACC_STATIC) != 0;
        args = Type.getArgumentTypes(desc);
        ret = Type.getReturnType(desc);
        overwritten = new boolean[args.length];
        this.hooks = hooks;
        this.frames = frames;
    }

    /** True if the message can be lost there: what a method returns to its caller cannot be made up. */
    static boolean skips(Hook hook, Type ret) {
        return hook.skippable && ret.getSort() == Type.VOID;
    }

    @Override
    public void visitCode() {
        super.visitCode();
        for (Hook hook : hooks) {
            if (!hook.before) {
                continue;
            }
            mv.visitLdcInsn(hook.id);
            push(hook, false);
            boolean skips = skips(hook, ret);
            mv.visitMethodInsn(Opcodes.INVOKESTATIC, "warren/runtime/Dict", skips ? "lost" : "enter",
                    "(ILjava/lang/Object;[Ljava/lang/Object;)".concat(skips ? "Z" : "V"), false);
            if (skips) {
                Label on = new Label();
                mv.visitJumpInsn(Opcodes.IFEQ, on);
                mv.visitInsn(Opcodes.RETURN);
                mv.visitLabel(on);
                if (frames) {
                    mv.visitFrame(Opcodes.F_SAME, 0, null, 0, null);
                }
                mv.visitInsn(Opcodes.NOP); // the method's own first frame must not fall on ours
            }
        }
    }

    @Override
    public void visitVarInsn(int opcode, int index) {
        if (opcode >= Opcodes.ISTORE && opcode <= Opcodes.ASTORE) {
            int slot = isStatic ? 0 : 1;
            for (int i = 0; i < args.length; i++) {
                overwritten[i] |= slot == index;
                slot += args[i].getSize();
            }
        }
        super.visitVarInsn(opcode, index);
    }

    @Override
    public void visitInsn(int opcode) {
        if (opcode >= Opcodes.IRETURN && opcode <= Opcodes.RETURN) {
            for (Hook hook : hooks) {
                if (hook.after) {
                    if (opcode == Opcodes.ARETURN) {
                        mv.visitInsn(Opcodes.DUP);
                    } else {
                        mv.visitInsn(Opcodes.ACONST_NULL);
                    }
                    mv.visitLdcInsn(hook.id);
                    push(hook, true);
                    mv.visitMethodInsn(Opcodes.INVOKESTATIC, "warren/runtime/Dict", "exit",
                            "(Ljava/lang/Object;ILjava/lang/Object;[Ljava/lang/Object;)V", false);
                }
            }
        }
        super.visitInsn(opcode);
    }

    /** Pushes `this` (or null) and the arguments the hook's expressions use. */
    private void push(Hook hook, boolean atExit) {
        if (isStatic) {
            mv.visitInsn(Opcodes.ACONST_NULL);
        } else {
            mv.visitVarInsn(Opcodes.ALOAD, 0);
        }
        int count = Math.min(hook.highestArgument() + 1, args.length);
        mv.visitIntInsn(Opcodes.SIPUSH, count);
        mv.visitTypeInsn(Opcodes.ANEWARRAY, "java/lang/Object");
        int slot = isStatic ? 0 : 1;
        for (int i = 0; i < count; i++) {
            if (hook.uses(i) && !(atExit && overwritten[i])) {
                mv.visitInsn(Opcodes.DUP);
                mv.visitIntInsn(Opcodes.SIPUSH, i);
                mv.visitVarInsn(args[i].getOpcode(Opcodes.ILOAD), slot);
                box(args[i]);
                mv.visitInsn(Opcodes.AASTORE);
            }
            slot += args[i].getSize();
        }
        extra = 9;
    }

    private void box(Type type) {
        String owner;
        switch (type.getSort()) {
            case Type.BOOLEAN: owner = "Boolean"; break;
            case Type.CHAR: owner = "Character"; break;
            case Type.BYTE: owner = "Byte"; break;
            case Type.SHORT: owner = "Short"; break;
            case Type.INT: owner = "Integer"; break;
            case Type.LONG: owner = "Long"; break;
            case Type.FLOAT: owner = "Float"; break;
            case Type.DOUBLE: owner = "Double"; break;
            default: return;
        }
        String full = "java/lang/" + owner;
        mv.visitMethodInsn(Opcodes.INVOKESTATIC, full, "valueOf", "(" + type.getDescriptor() + ")L" + full + ";", false);
    }

    @Override
    public void visitMaxs(int maxStack, int maxLocals) {
        super.visitMaxs(maxStack + extra, maxLocals);
    }
}
