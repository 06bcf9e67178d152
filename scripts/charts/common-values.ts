// Values that all charts have, under the same names. Pure.
import { choice, flag, number, object, objects, shaped, text, texts, type Values } from './values.ts'

export interface CommonOptions {
  readonly program: string
  readonly replicas: number
  readonly resources: object
  readonly monitor: 'serviceMonitor' | 'podMonitor'
  readonly hasRules: boolean
  /** Egress beside DNS. */
  readonly egress: readonly object[]
  readonly egressText: string
}

export const imageValues = (repository: string): Values => ({
  repository: text('Repository of the image.', repository),
  tag: text('Tag; default: the version of the chart.'),
  digest: {
    is: 'value',
    description: 'Digest, sha256:…; it wins over the tag. Use it in production.',
    schema: { type: 'string', pattern: '^(sha256:[0-9a-f]{64})?$' },
    fallback: '',
  },
  pullPolicy: choice('Pull policy.', ['Always', 'IfNotPresent', 'Never'], 'IfNotPresent'),
})

export const buildCommonValues = (options: CommonOptions): Values => ({
  image: imageValues(`brokkr/${options.program}`),
  imagePullSecrets: objects('References to Secrets with credentials of the registry.'),
  nameOverride: text('Name of the objects; default: release and chart.'),
  replicas: number('Number of pods.', options.replicas, 0, 100),
  resources: object('Requests and limits of the container.', options.resources),
  extraEnv: objects('Further environment variables, as in a container. Values of Secrets by valueFrom.'),
  podAnnotations: object('Further annotations of the pods.'),
  nodeSelector: object('Node selector of the pods.'),
  tolerations: objects('Tolerations of the pods.'),
  affinity: object('Affinity of the pods.'),
  priorityClassName: text('Priority class of the pods.'),
  serviceAccount: { annotations: object('Annotations of the ServiceAccount.') },
  topologySpread: {
    enabled: flag('Spreads the pods over nodes.', true),
    topologyKey: text('Label of nodes.', 'kubernetes.io/hostname'),
    whenUnsatisfiable: choice('What happens if it is impossible.', ['ScheduleAnyway', 'DoNotSchedule'], 'ScheduleAnyway'),
  },
  podDisruptionBudget: {
    enabled: flag('Creates a PodDisruptionBudget.', true),
    maxUnavailable: number('Pods that may be evicted at the same time.', 1, 0, 100),
  },
  networkPolicy: {
    enabled: flag('Creates a NetworkPolicy: ports of the program in, DNS and egress out.', true),
    from: objects('Peers that may reach the service ports; empty: all.'),
    metricsFrom: objects('Peers that may reach the port of metrics and probes; empty: all.'),
    egress: objects(`Egress rules beside DNS. ${options.egressText}`, options.egress),
  },
  metrics: {
    [options.monitor]: {
      enabled: choice('auto: if the cluster serves the kind.', ['auto', true, false], 'auto'),
      interval: text('Interval of scrapes.', '30s'),
      labels: object('Labels by which a Prometheus selects it.'),
    },
    ...(options.hasRules
      ? {
          rules: {
            enabled: choice('Alerts as a PrometheusRule. auto: if the cluster serves the kind.', ['auto', true, false], 'auto'),
            labels: object('Labels by which a Prometheus selects it.'),
          },
        }
      : {}),
  },
})

export const ingressValues: Values = {
  enabled: flag('Creates an Ingress.', false),
  className: text('Ingress class.'),
  host: text('Host name; required with enabled.'),
  tlsSecret: text('Secret with the certificate of the host.'),
  annotations: object('Annotations, such as time limits of the proxy.'),
}

/** Helm adds `global` to the values of a sub-chart. */
export const crdValues = shaped(
  'enabled: installs and upgrades the definitions. They stay when the release is uninstalled.',
  { type: 'object', additionalProperties: false, properties: { enabled: { type: 'boolean' }, global: { type: 'object' } } },
  { enabled: true },
)

export const namespaceList = (description: string) =>
  texts(description, [], { type: 'string', pattern: '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$' })

export const tcp = (...ports: number[]): object => ({ ports: ports.map((port) => ({ protocol: 'TCP', port })) })
