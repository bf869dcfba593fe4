"""Which words say that Kubernetes kept a pod from running?"""

from __future__ import annotations

from preflight.diagnose.cause import Cause, Kind

# As `kubectl describe pod` says it, whose events are those of one pod.
STARTED = r"kubelet\S*(?: \S+)?\s+started container"
CAUSES = (
    Cause(
        "pod-evicted",
        "Kubernetes evicted the pod: the node ran low on memory or disk",
        (
            r"\breason: +evicted\b",
            r"\d/\d +evicted\b",
            r"\bpods? .* evicted\b",
            r"\bevicted pod\b",
            r"eviction manager: must evict pod",
            r"the node was low on resource",
            r"nodehasdiskpressure",
            r"had condition: \[",
            r"pod ephemeral local storage usage exceeds",
            r"usage of emptydir volume .*exceeds",
            r"exceeded its local ephemeral storage limit",
            r"nodehasinsufficientmemory",
            r"\d+/\d+ workers are evicted",
            r"\bmpijobevicted\b",
        ),
        "make requests as large as the use (memory, ephemeral-storage); keep logs and checkpoints on a volume",
        "Kubernetes, node-pressure eviction",
        check="files.there_is_room",
        weight=7,
    ),
    Cause(
        "pod-unschedulable",
        "Kubernetes cannot place a pod: not enough GPUs, memory or a matching node",
        (
            r"failedscheduling",
            r"nodes are (?:un)?available: ",
            r"\bunschedulable\b(?!:| leases)",
            r"exceeded quota",
            r"\bgang unschedulable\b",
            r"couldn't assign flavors to pod set",
            r"pod didn't trigger scale-up",
            r"\bfailedscaleup\b",
        ),
        "look at `kubectl describe pod` and `kubectl describe node | grep -A8 Allocated`; use gang scheduling so"
        " that no half of a job waits",
        "Kubernetes, scheduler",
        check="gpu.count_is_the_same_on_every_node",
        weight=6,
        passed=(r"(?:scheduler|volcano)\s+successfully assigned \S+ to \S+",),
    ),
    Cause(
        "pod-waits-in-init",
        "a pod waits in its init container: the worker of a PyTorchJob until the name of the master resolves",
        (
            r"is waiting to start: podinitializing",
            r"restarting failed container init-",
            r"\binit:\d+/\d+\b",
            r"\binit:(?:error|crashloopbackoff)\b",
        ),
        "look at `kubectl get pods` for the master: was it created, is it scheduled and running? `kubectl logs"
        " POD -c init-pytorch` shows the name that does not resolve",
        "kubeflow/training-operator",
        check="names.peers_can_be_resolved",
        weight=5,
    ),
    Cause(
        "pod-network",
        "a pod could not be set up on its node: the network plug-in (CNI) or the container runtime there failed",
        (
            r"failedcreatepodsandbox",
            r"failed to create pod sandbox",
            r"failed to (?:set up|setup) (?:network for )?sandbox",
            r"networkpluginnotready",
        ),
        "read the end of the event, then look at the plug-in's pods on that node (`kubectl -n kube-system get"
        " pods -o wide`) and at kubelet's log",
        "Kubernetes; projectcalico/calico",
        Kind.SUSPICION,
        weight=5,
        passed=(STARTED, r"\bpleg\b.*containerstarted"),
    ),
    Cause(
        "pod-refused",
        "a node refused the pod that was placed on it: it has fewer healthy GPUs, or less free CPU or memory, than the scheduler believed",
        (
            r"unexpectedadmissionerror",
            r"allocate failed due to (?:no|requested|can't|device|rpc)\b",
            r"topologyaffinityerror",
            r"\boutofcpu\b",
            r"\boutofmemory\b",
            r"\boutofpods\b",
            r"\boutofnvidia\.com/gpu",
            r"node didn't have enough resource",
        ),
        "run `kubectl describe node`: Allocatable below Capacity means a GPU that the device plugin found broken"
        " (its log, `dmesg -T | grep Xid`); restart the plugin, or cordon the node",
        "Kubernetes, device plugins; volcano-sh/volcano#1782",
        check="gpu.count_is_the_same_on_every_node",
        weight=6,
    ),
    Cause(
        "pod-replaced",
        "pods of the job were deleted or restarted while the others went on",
        (
            r"marking for deletion pod \S+",
            r"job \S+ is (?:restarting|failed) because",
            r"backofflimitexceeded",
            r"job has reached the specified backoff limit",
            r"stopping container \S+",
            r"liveness probe failed",
            r"exceededgraceperiod",
            r"container \S+ failed (?:liveness|startup) probe",
            r"startup probe failed",
            r"reaching max number of restarts",
            r"matching failjob rule",
            r"\bpod: \S+ exited with code [1-9]",
            r"exceeded the podsready timeout",
        ),
        "look for the first pod that ended: `kubectl get events --sort-by=.lastTimestamp`, `kubectl logs -p`",
        "kubeflow/trainer",
        Kind.SUSPICION,
        weight=3,
    ),
    Cause(
        "pod-volume",
        "a volume that the pod names is not there, or cannot be attached or mounted on its node",
        (
            r"\bfailedmount\b",
            r"mountvolume\.\w+ failed",
            r"mapvolume\.\w+ failed",
            r"unable to attach or mount volumes",
            r"failedattachvolume",
            r"multi-attach error for volume",
            r"persistentvolumeclaim .*not found",
            r"\bprovisioningfailed\b",
            r"storageclass\.storage\.k8s\.io .*not found",
            r"no persistent volumes available for this claim",
        ),
        "look at `kubectl get pvc,pv` and the events of the claim; a volume for many nodes needs ReadWriteMany"
        " and a file system that all can mount; check its driver (CSI) and client (NFS, Lustre) on that node",
        "Kubernetes, persistent volumes",
        check="files.places_can_be_written_to",
        weight=7,
        passed=(STARTED,),
    ),
    Cause(
        "pod-config",
        "the pod names a secret, config map, key, service account or user that it cannot have",
        (
            r"createcontainerconfigerror",
            r"\bsecret \W[\w.-]+\W not found",
            r"\bconfigmap \W[\w.-]+\W not found",
            r"couldn't find key \S+ in (?:secret|configmap)",
            r"serviceaccount \W?[\w.-]+\W? not found",
            r"container has runasnonroot and image will run as root",
        ),
        "run `kubectl get secret,configmap,serviceaccount` in the namespace of the job and create what the line"
        " names; for runAsNonRoot set a user in the image, or runAsUser",
        "Kubernetes",
        weight=7,
    ),
    Cause(
        "kind-unknown",
        "this cluster does not know the kind of object that the job is made of: its operator is not installed, or of another version",
        (
            r"no matches for kind \S+ in version",
            r"the server could not find the requested resource \(",
            r"server doesn't have a resource type",
            r"ensure crds are installed first",
            r"no kind \S+ is registered for (?:the internal )?version",
        ),
        "`kubectl api-resources | grep -iE 'pytorchjob|trainjob|jobset|podgroup|rayjob|mpijob'`; install the operator or scheduler that"
        " the line names (Kubeflow Trainer, JobSet, Volcano, KubeRay), with its CRDs",
        "kubeflow/trainer#1825",
        weight=7,
    ),
    Cause(
        "pod-forbidden",
        "a rule of the cluster forbids the pod, so it is never created",
        (
            r"admission webhook .* denied the request",
            r"failed calling webhook",
            r"violates podsecurity",
            r"is forbidden: unable to validate against any (?:pod security|security context)",
        ),
        "the line names the rule: hostNetwork, IPC_LOCK, hostPath and privileged need a namespace that allows"
        " them (pod-security.kubernetes.io/enforce); where a webhook does not answer, look at its own pods",
        "Kubernetes, pod security admission",
        weight=6,
    ),
)
