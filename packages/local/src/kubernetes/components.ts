// Programs, arguments and readiness addresses of the processes of a control plane.
import type { KubeAssets } from '../assets/kube-assets.ts'
import type { PlaneDir, PlanePorts } from './plane-dir.ts'

export type Component = 'etcd' | 'kube-apiserver' | 'kube-controller-manager' | 'kube-scheduler' | 'kwok'

/** Clients stop before the API server, which would wait a minute for open watches; etcd stops last. */
export const stopOrder: readonly (readonly Component[])[] = [
  ['kwok', 'kube-scheduler', 'kube-controller-manager'],
  ['kube-apiserver'],
  ['etcd'],
]

export function findProgram(component: Component, assets: KubeAssets): string | undefined {
  return {
    etcd: assets.etcd,
    'kube-apiserver': assets.kubeApiserver,
    'kube-controller-manager': assets.controllerManager,
    'kube-scheduler': assets.scheduler,
    kwok: assets.kwok,
  }[component]
}

/** etcd has none: it listens on a socket only. */
export const portNames = {
  'kube-apiserver': 'apiserver',
  'kube-controller-manager': 'controllerManager',
  'kube-scheduler': 'scheduler',
  kwok: 'kwok',
} as const satisfies Record<Exclude<Component, 'etcd'>, keyof PlanePorts>

/** The address that answers 200 when the component is ready. */
export function readyAddress(component: Exclude<Component, 'etcd'>, { ports }: PlaneDir): string {
  const paths = { 'kube-apiserver': '/readyz', 'kube-controller-manager': '/healthz', 'kube-scheduler': '/readyz', kwok: '/healthz' }
  return `https://127.0.0.1:${ports[portNames[component]]}${paths[component]}`
}

export type ComponentOptions = { liftLimits: boolean; apiserverArgs: readonly string[] }

export function componentArguments(component: Component, plane: PlaneDir, options: ComponentOptions): string[] {
  return {
    etcd: etcdArguments,
    'kube-apiserver': apiserverArguments,
    'kube-controller-manager': controllerManagerArguments,
    'kube-scheduler': schedulerArguments,
    kwok: kwokArguments,
  }[component](plane, options)
}

const limitsLifted = ['--enable-priority-and-fairness=false', '--max-requests-inflight=0', '--max-mutating-requests-inflight=0']

/** Sockets are relative to the working directory: no TCP port, and no length limit for its path. The advertised addresses must look
 *  like host and port; they are never dialed. */
function etcdArguments({ path }: PlaneDir): string[] {
  return [
    '--name=practice',
    `--data-dir=${path('etcdData')}`,
    '--listen-client-urls=unix://etcd.sock',
    '--advertise-client-urls=http://127.0.0.1:1',
    '--listen-peer-urls=unix://etcd-peer.sock',
    '--initial-advertise-peer-urls=http://127.0.0.1:2',
    '--initial-cluster=practice=http://127.0.0.1:2',
    `--quota-backend-bytes=${4 * 1024 ** 3}`,
    '--unsafe-no-fsync', // practice data: survives killed processes, not a power failure
    '--log-level=warn',
  ]
}

function apiserverArguments({ path, ports }: PlaneDir, options: ComponentOptions): string[] {
  return [
    '--etcd-servers=unix://etcd.sock',
    '--bind-address=127.0.0.1',
    `--secure-port=${ports.apiserver}`,
    '--advertise-address=127.0.0.1',
    '--endpoint-reconciler-type=none', // loopback is not a valid endpoint address
    `--tls-cert-file=${path('serverCert')}`,
    `--tls-private-key-file=${path('serverKey')}`,
    `--client-ca-file=${path('caCert')}`,
    `--token-auth-file=${path('tokens')}`,
    '--authorization-mode=RBAC',
    '--service-account-issuer=https://kubernetes.default.svc.cluster.local',
    `--service-account-key-file=${path('accountsPub')}`,
    `--service-account-signing-key-file=${path('accountsKey')}`,
    '--service-cluster-ip-range=10.96.0.0/16',
    '--allow-privileged=true',
    '--profiling=false',
    '--kubelet-preferred-address-types=InternalIP',
    `--kubelet-client-certificate=${path('kubeletCert')}`,
    `--kubelet-client-key=${path('kubeletKey')}`,
    `--kubelet-certificate-authority=${path('caCert')}`,
    `--requestheader-client-ca-file=${path('frontCaCert')}`,
    '--requestheader-allowed-names=front-proxy-client',
    '--requestheader-username-headers=X-Remote-User',
    '--requestheader-group-headers=X-Remote-Group',
    '--requestheader-extra-headers-prefix=X-Remote-Extra-',
    `--proxy-client-cert-file=${path('frontCert')}`,
    `--proxy-client-key-file=${path('frontKey')}`,
    ...(options.liftLimits ? limitsLifted : []),
    ...options.apiserverArgs,
  ]
}

function controllerManagerArguments(plane: PlaneDir): string[] {
  const { path, ports } = plane
  return [
    `--kubeconfig=${path('kubeconfig')}`,
    ...servingArguments(plane, ports.controllerManager),
    '--leader-elect=false',
    `--service-account-private-key-file=${path('accountsKey')}`,
    `--root-ca-file=${path('caCert')}`,
    `--cluster-signing-cert-file=${path('caCert')}`,
    `--cluster-signing-key-file=${path('caKey')}`,
    '--kube-api-qps=500',
    '--kube-api-burst=1000',
    '--concurrent-namespace-syncs=20',
    '--profiling=false',
  ]
}

function schedulerArguments(plane: PlaneDir): string[] {
  return [`--config=${plane.path('schedulerConfig')}`, ...servingArguments(plane, plane.ports.scheduler)]
}

/** Arguments of the health endpoints of controller manager and scheduler. */
function servingArguments({ path }: PlaneDir, port: number): string[] {
  return [
    `--authentication-kubeconfig=${path('kubeconfig')}`,
    `--authorization-kubeconfig=${path('kubeconfig')}`,
    '--bind-address=127.0.0.1',
    `--secure-port=${port}`,
    `--tls-cert-file=${path('serverCert')}`,
    `--tls-private-key-file=${path('serverKey')}`,
  ]
}

function kwokArguments({ path, ports }: PlaneDir): string[] {
  return [
    `--kubeconfig=${path('kubeconfig')}`,
    `--config=${path('kwokConfig')}`,
    '--manage-all-nodes=true',
    '--cidr=10.244.0.0/16',
    '--node-ip=127.0.0.1',
    `--node-port=${ports.kwok}`,
    `--server-address=127.0.0.1:${ports.kwok}`,
    `--tls-cert-file=${path('serverCert')}`,
    `--tls-private-key-file=${path('serverKey')}`,
    '--node-lease-duration-seconds=40',
  ]
}
