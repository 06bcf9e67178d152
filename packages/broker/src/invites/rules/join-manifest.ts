// Builds the manifest that installs an agent in a cluster: namespace, RBAC objects, the join token as a Secret and the Deployment that
// mounts it. Pure.
import type { Preset } from '@brokkr/contract/invites/agent-invite.ts'
import type { JsonObject } from '@brokkr/contract/manifest/json-text.ts'
import { yamlText } from '@brokkr/contract/manifest/yaml-text.ts'
import { buildAgentRights } from './agent-rights.ts'

export interface JoinManifestInput {
  readonly brokerUrl: string
  readonly image: string
  readonly token: string
  readonly name: string
  readonly clusterName: string
  readonly preset: Preset
  readonly namespaces: readonly string[]
}

const own = 'brokkr-agent'
const account = 'brokkr-agent'
const tokenSecret = 'brokkr-agent-join'
const tokenFolder = '/var/run/brokkr/join'
const labels = { 'app.kubernetes.io/name': 'brokkr-agent' }

export function buildJoinManifest(input: JoinManifestInput): string {
  const { preset, namespaces, token } = input
  const objects: JsonObject[] = [
    {
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name: own, labels: { ...labels, 'pod-security.kubernetes.io/enforce': 'restricted' } },
    },
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: account, namespace: own, labels } },
    ...buildAgentRights({ preset, namespaces, own, account }),
    { apiVersion: 'v1', kind: 'Secret', metadata: { name: tokenSecret, namespace: own, labels }, type: 'Opaque', stringData: { token } },
    buildDeployment(input),
  ]
  return objects.map(yamlText).join('---\n')
}

function buildDeployment(input: JoinManifestInput): JsonObject {
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'brokkr-agent', namespace: own, labels },
    spec: {
      replicas: 1,
      // A second replica would only wait for the Lease.
      strategy: { type: 'Recreate' },
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: {
          serviceAccountName: account,
          terminationGracePeriodSeconds: 30,
          securityContext: { runAsNonRoot: true, runAsUser: 65532, seccompProfile: { type: 'RuntimeDefault' } },
          containers: [buildContainer(input)],
          volumes: [{ name: 'join', secret: { secretName: tokenSecret, defaultMode: 0o444 } }],
        },
      },
    },
  }
}

function buildContainer(input: JoinManifestInput): JsonObject {
  const probe = (path: string): JsonObject => ({ httpGet: { path, port: 'health' }, periodSeconds: 10 })
  return {
    name: 'agent',
    image: input.image,
    env: Object.entries(buildEnvironment(input)).map(([name, value]) => ({ name, value })),
    ports: [{ name: 'health', containerPort: 8080 }],
    livenessProbe: probe('/healthz'),
    readinessProbe: probe('/readyz'),
    resources: { requests: { cpu: '50m', memory: '128Mi' }, limits: { cpu: '200m', memory: '256Mi' } },
    securityContext: { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ['ALL'] } },
    volumeMounts: [{ name: 'join', mountPath: tokenFolder, readOnly: true }],
  }
}

const buildEnvironment = ({ brokerUrl, name, clusterName, preset, namespaces }: JoinManifestInput): Record<string, string> => ({
  BROKKR__AGENT__BROKER_URL: brokerUrl,
  BROKKR__AGENT__AGENT_NAME: name,
  BROKKR__AGENT__CLUSTER_NAME: clusterName,
  BROKKR__AGENT__JOIN_TOKEN_FILE: `${tokenFolder}/token`,
  BROKKR__AGENT__PRESET: preset,
  ...(preset === 'namespaced' ? { BROKKR__AGENT__ALLOWED_NAMESPACES: namespaces.join(',') } : {}),
})
