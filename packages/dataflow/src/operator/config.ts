// Settings of the operator, from environment variables with the names that the public operator uses.
import { readEnvironment } from '@brokkr/runtime/config/environment-settings.ts'
import { type ConfigOf, count, optional, port, seconds, setting } from '@brokkr/runtime/config/settings.ts'
import { logLevels } from '@brokkr/runtime/logging/log.ts'
import { z } from 'zod'

const labelForm = /^[A-Za-z0-9]([A-Za-z0-9./_-]{0,250}[A-Za-z0-9])?=([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$/
const logLevel = z.string().toLowerCase().pipe(z.enum(logLevels))

export const operatorTable = {
  PROCESSOR_IMAGE: optional(z.string().min(1), {
    description: 'Image of processors; default: the image of the operator, read from the Deployment OPERATOR_DEPLOYMENT_NAME.',
  }),
  PROCESSOR_LOG_LEVEL: setting(logLevel, 'info', { description: 'Log level of processors.' }),
  PROCESSOR_ALLOW_LOOPBACK: setting(z.boolean(), false, {
    description: 'Allows processors to connect to loopback addresses, for tests and trials.',
  }),
  PROCESSOR_PROGRESS_TIMEOUT_SECONDS: setting(seconds, 600, {
    description: 'Time after which the liveness probe of a processor fails if messages are in flight and no stage has made an attempt.',
  }),
  PROCESSOR_POD_LABELS: setting(z.array(z.string().regex(labelForm, 'must have the form key=value')).max(20), [], {
    description: 'Further labels of processor pods, each `key=value`, for instance for the injection of a sidecar.',
  }),
  WATCH_NAMESPACES: setting(z.array(z.string().min(1).max(63)).max(1_000), [], {
    description: 'Namespaces whose flows the operator handles; empty: all.',
  }),
  WATCH_SECRETS: setting(z.boolean(), true, {
    description: 'Watches the metadata of Secrets, so that a rotation acts at once; false: referenced Secrets are read every 5 minutes.',
  }),
  OPERATOR_NAMESPACE: optional(z.string().min(1).max(63), {
    description: 'Namespace of the Lease and of the operator; default: the namespace of the pod or of the kubeconfig.',
  }),
  OPERATOR_DEPLOYMENT_NAME: optional(z.string().min(1).max(253), {
    description: 'Deployment of the operator: a change of its pod template is an upgrade of all flows.',
  }),
  OPERATOR_LEADER_ELECT: setting(z.boolean(), true, {
    description: 'Lets one process act at a time, by the Lease `dataflow-operator.dataflow.io`.',
  }),
  OPERATOR_INSTALL_CRDS: setting(z.boolean(), false, {
    description: 'Installs the definitions of DataFlow and DataFlowCron at the start.',
  }),
  OPERATOR_PROGRESS_FROM_ANNOTATION: setting(z.boolean(), false, {
    description: 'Reads the address of a processor from an annotation of its pod and allows loopback: for clusters with simulated pods.',
  }),
  OPERATOR_PROGRESS_SECONDS: setting(seconds.min(1), 30, {
    description: 'Pause between two reads of the progress of a ready processor; of others at most 10 seconds.',
  }),
  OPERATOR_BIND_HOST: setting(z.string().min(1), '0.0.0.0', { description: 'Address on which all ports are opened.' }),
  OPERATOR_METRICS_PORT: setting(port, 9090, { description: 'Port of the metrics.', unit: 'port' }),
  OPERATOR_PROBE_PORT: setting(port, 9091, { description: 'Port of the probes.', unit: 'port' }),
  WEBHOOK_ENABLED: setting(z.boolean(), false, { description: 'Serves the admission webhook.' }),
  WEBHOOK_PORT: setting(port, 9443, { description: 'Port of the admission webhook.', unit: 'port' }),
  WEBHOOK_CERT_DIR: optional(z.string().min(1), {
    description: 'Folder with tls.crt and tls.key of the webhook; default: the operator makes and renews its own certificates in a Secret.',
  }),
  WEBHOOK_SERVICE_NAME: setting(z.string().min(1).max(63), 'dataflow-operator-webhook', {
    description: 'Service of the webhook: the name in its certificate. The Secret of the certificates has the same name.',
  }),
  WEBHOOK_CONFIGURATION_NAME: setting(z.string().min(1).max(253), 'dataflow-operator-webhook', {
    description: 'ValidatingWebhookConfiguration whose caBundle the operator keeps up to date.',
  }),
  RECONCILE_TIMEOUT_SECONDS: setting(seconds.min(1), 180, { description: 'Time limit of one pass over a flow.' }),
  RECONCILE_PENDING_REQUEUE_SECONDS: setting(seconds.min(1), 20, {
    description: 'Pause between two passes over a flow whose processors are not ready.',
  }),
  MAX_CONCURRENT_RECONCILES: setting(count.min(1).max(100), 8, {
    description: 'Flows that are passed over at the same time.',
    unit: 'flows',
  }),
  ROLLOUT_CONCURRENCY: setting(count.min(1).max(1_000), 10, {
    description: 'Flows that an upgrade of the operator rolls at the same time.',
    unit: 'flows',
  }),
  LOG_LEVEL: setting(logLevel, 'info', { description: 'Lowest level of log lines that the operator writes.' }),
  KUBECONFIG: optional(z.string().min(1), { description: 'Path of a kubeconfig file, for an operator outside a cluster.' }),
}
export type OperatorConfig = ConfigOf<typeof operatorTable>

export const readOperatorConfig = (env: Readonly<Record<string, string | undefined>>): OperatorConfig => readEnvironment(operatorTable, env)
