/*
 * What Park.java cannot ask of a JVM from Java: methods by their ids, without initialising their class.
 *
 * HotSpot's test interface compiles a method that it is handed as a java.lang.reflect.Method, and looks its id up through the JNI
 * function FromReflectedMethod, which initialises the class: static initialisers of the target would run before its program does. So
 * JVMTI gives the ids here (its GetClassMethods initialises nothing), and while one is asked for, FromReflectedMethod answers it to the
 * thread that asked. HotSpot by itself never compiles a method of a class whose initialisation has not begun; what C1 makes of one
 * initialises what it touches, as it does for every other class that its code names (docs/decisions/0011).
 *
 * Loaded by warren.agent.MethodIds into JVMs that are to be dumped, built by build.rs. `done` puts the JVM's function table back. It calls
 * back nobody and touches no class of the target.
 */
#define _POSIX_C_SOURCE 200809L

#include <fcntl.h>
#include <jvmti.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static jvmtiEnv *jvmti;
static jniNativeInterface *original;
/* Of one thread: a JNIEnv belongs to its thread. */
static JNIEnv *asking;
static jmethodID asked;

static jmethodID JNICALL from_reflected_method(JNIEnv *env, jobject method) {
    return asked != NULL && env == asking ? asked : original->FromReflectedMethod(env, method);
}

/* Puts ours into the table of all threads; false where the JVM has no JVMTI. */
JNIEXPORT jboolean JNICALL Java_warren_agent_MethodIds_open(JNIEnv *env, jclass self) {
    JavaVM *vm;
    jniNativeInterface *changed;
    (void)self;
    if ((*env)->GetJavaVM(env, &vm) != JNI_OK || (*vm)->GetEnv(vm, (void **)&jvmti, JVMTI_VERSION_1_2) != JNI_OK) {
        return JNI_FALSE;
    }
    if ((*jvmti)->GetJNIFunctionTable(jvmti, &original) != JVMTI_ERROR_NONE) {
        return JNI_FALSE;
    }
    if ((*jvmti)->GetJNIFunctionTable(jvmti, &changed) != JVMTI_ERROR_NONE) {
        return JNI_FALSE;
    }
    changed->FromReflectedMethod = from_reflected_method;
    jvmtiError set = (*jvmti)->SetJNIFunctionTable(jvmti, changed);
    (*jvmti)->Deallocate(jvmti, (unsigned char *)changed);
    return set == JVMTI_ERROR_NONE;
}

/* Ids of the class's methods of this name that have bytecode; null where its methods are not there yet (it is not linked). */
JNIEXPORT jlongArray JNICALL Java_warren_agent_MethodIds_of(JNIEnv *env, jclass self, jclass of, jstring name) {
    const jint without_bytecode = 0x100 | 0x400; /* native, abstract */
    jlongArray out = NULL;
    jmethodID *methods;
    jint count, found = 0;
    (void)self;
    if ((*jvmti)->GetClassMethods(jvmti, of, &count, &methods) != JVMTI_ERROR_NONE) {
        return NULL;
    }
    const char *wanted = (*env)->GetStringUTFChars(env, name, NULL);
    jlong *ids = malloc(sizeof(jlong) * (size_t)(count + 1));
    for (jint i = 0; wanted != NULL && ids != NULL && i < count; i++) {
        char *its = NULL;
        jint modifiers;
        if ((*jvmti)->GetMethodModifiers(jvmti, methods[i], &modifiers) != JVMTI_ERROR_NONE || (modifiers & without_bytecode) != 0 ||
            (*jvmti)->GetMethodName(jvmti, methods[i], &its, NULL, NULL) != JVMTI_ERROR_NONE) {
            continue;
        }
        if (strcmp(its, wanted) == 0) {
            ids[found++] = (jlong)(intptr_t)methods[i];
        }
        (*jvmti)->Deallocate(jvmti, (unsigned char *)its);
    }
    if (wanted != NULL && ids != NULL) {
        out = (*env)->NewLongArray(env, found);
        if (out != NULL) {
            (*env)->SetLongArrayRegion(env, out, 0, found, ids);
        }
    }
    if (wanted != NULL) {
        (*env)->ReleaseStringUTFChars(env, name, wanted);
    }
    free(ids);
    (*jvmti)->Deallocate(jvmti, (unsigned char *)methods);
    return out;
}

/* The next methods that this thread hands to the JVM, whichever they are, stand for this one; 0 for themselves. */
JNIEXPORT void JNICALL Java_warren_agent_MethodIds_ask(JNIEnv *env, jclass self, jlong id) {
    (void)self;
    asking = env;
    asked = (jmethodID)(intptr_t)id;
}

/* What the JVM says from now on goes nowhere: the file descriptor that `speak` wants back, -1 where that cannot be had. */
JNIEXPORT jint JNICALL Java_warren_agent_MethodIds_mute(JNIEnv *env, jclass self) {
    (void)env;
    (void)self;
    int kept = dup(STDOUT_FILENO);
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (kept >= 0 && nowhere >= 0) {
        dup2(nowhere, STDOUT_FILENO);
    }
    if (nowhere >= 0) {
        close(nowhere);
    }
    return kept;
}

/* It is heard again. */
JNIEXPORT void JNICALL Java_warren_agent_MethodIds_speak(JNIEnv *env, jclass self, jint kept) {
    (void)env;
    (void)self;
    if (kept >= 0) {
        dup2(kept, STDOUT_FILENO);
        close(kept);
    }
}

/* The table is as it was. The copy of it stays: a thread may be on its way through ours. */
JNIEXPORT void JNICALL Java_warren_agent_MethodIds_done(JNIEnv *env, jclass self) {
    (void)env;
    (void)self;
    asked = NULL;
    (*jvmti)->SetJNIFunctionTable(jvmti, original);
    (*jvmti)->DisposeEnvironment(jvmti);
}
