// Pipelines over many clusters on one API server: each cluster is an account that sees two namespaces, so that each has a client and
// watches of its own. Applications are Deployments whose status is written by hand.

import type { Kube } from '@brokkr/kube'
import { mapBounded } from '@brokkr/runtime/concurrency.ts'
import type { PrivateCluster } from '@brokkr/testing/servers/kube.ts'

export interface Fleet {
  readonly pipelines: number
  readonly clusters: number
}

const parallel = 16
const DEPLOYMENT = { apiVersion: 'apps/v1', kind: 'Deployment' }
const role = { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'observer' }
export const appName = (index: number): string => `app-${index}`
export const namespaceOf = (stage: 'dev' | 'prod', index: number, { clusters }: Fleet): string => `${stage}-${index % clusters}`

const each = <T>(items: readonly T[], work: (item: T) => Promise<unknown>): Promise<unknown> => mapBounded(items, parallel, work)
const range = (count: number): number[] => Array.from({ length: count }, (_, index) => index)

export async function createFleet(plane: PrivateCluster, kube: Kube, fleet: Fleet): Promise<void> {
  await kube.create(gitopsClusterDefinition)
  await kube.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'fleet' } })
  await each(range(fleet.clusters), (cluster) => createCluster(plane, kube, cluster))
  await each(range(fleet.pipelines), async (index) => {
    await setVersion(kube, fleet, { stage: 'dev', index, version: 'v1' })
    await setVersion(kube, fleet, { stage: 'prod', index, version: 'v1' })
  })
}

/** After the definitions are installed. */
export const createPipelines = (kube: Kube, fleet: Fleet): Promise<unknown> =>
  each(range(fleet.pipelines), (index) =>
    kube.create({
      apiVersion: 'pipelines.weave.works/v1alpha1',
      kind: 'Pipeline',
      metadata: { namespace: 'fleet', name: appName(index) },
      spec: {
        appRef: { ...DEPLOYMENT, name: appName(index) },
        environments: (['dev', 'prod'] as const).map((stage) => ({
          name: stage,
          targets: [
            {
              namespace: namespaceOf(stage, index, fleet),
              clusterRef: { kind: 'GitopsCluster', name: `cluster-${index % fleet.clusters}` },
            },
          ],
        })),
        promotion: { strategy: { notification: {} } },
      },
    }),
  )

async function createCluster(plane: PrivateCluster, kube: Kube, cluster: number): Promise<void> {
  const [account, name] = [`observer-${cluster}`, `cluster-${cluster}`]
  await kube.create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { namespace: 'fleet', name: account } })
  for (const namespace of [`dev-${cluster}`, `prod-${cluster}`]) {
    await kube.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } })
    await kube.create({
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'Role',
      metadata: { namespace, name: role.name },
      rules: [{ apiGroups: ['apps'], resources: ['deployments'], verbs: ['get', 'list', 'watch'] }],
    })
    await kube.create({
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'RoleBinding',
      metadata: { namespace, name: role.name },
      roleRef: role,
      subjects: [{ kind: 'ServiceAccount', namespace: 'fleet', name: account }],
    })
  }
  const token = await requestToken(kube, account)
  const kubeconfig = await writeKubeconfig(plane, token)
  const data = { kubeconfig: Buffer.from(kubeconfig).toString('base64') }
  await kube.create({ apiVersion: 'v1', kind: 'Secret', metadata: { namespace: 'fleet', name }, data })
  const at = { apiVersion: 'gitops.weave.works/v1alpha1', kind: 'GitopsCluster', namespace: 'fleet', name }
  await kube.create({ apiVersion: at.apiVersion, kind: at.kind, metadata: { namespace: 'fleet', name }, spec: { secretRef: { name } } })
  const status = { conditions: [{ type: 'Ready', status: 'True' }] }
  await kube.patch(at, { type: 'merge', body: { status } }, { subresource: 'status' })
}

async function requestToken(kube: Kube, account: string): Promise<string> {
  const body = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: { expirationSeconds: 86_400 } }
  const { text } = await kube.request('POST', `/api/v1/namespaces/fleet/serviceaccounts/${account}/token`, { body })
  return (JSON.parse(text) as { status: { token: string } }).status.token
}

async function writeKubeconfig({ url, caPem }: PrivateCluster, token: string): Promise<string> {
  const ca = Buffer.from(caPem).toString('base64')
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'c', cluster: { server: url, 'certificate-authority-data': ca } }],
    users: [{ name: 'u', user: { token } }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  })
}

/** The Deployment as its controller would leave it: rolled out on this version. */
export async function setVersion(kube: Kube, fleet: Fleet, at: { stage: 'dev' | 'prod'; index: number; version: string }): Promise<void> {
  const ref = { ...DEPLOYMENT, namespace: namespaceOf(at.stage, at.index, fleet), name: appName(at.index) }
  const labels = { app: ref.name }
  const containers = [{ name: 'web', image: `example.invalid/web:${at.version}` }]
  const spec = { replicas: 1, selector: { matchLabels: labels }, template: { metadata: { labels }, spec: { containers } } }
  const object = { ...DEPLOYMENT, metadata: { namespace: ref.namespace, name: ref.name }, spec }
  const { object: stored } = await kube.apply(object, { fieldManager: 'bench', force: true })
  const status = { observedGeneration: stored.metadata.generation, replicas: 1, updatedReplicas: 1, availableReplicas: 1, readyReplicas: 1 }
  await kube.patch(ref, { type: 'merge', body: { status } }, { subresource: 'status' })
}

const open = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true }
const gitopsClusterDefinition = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'gitopsclusters.gitops.weave.works' },
  spec: {
    group: 'gitops.weave.works',
    scope: 'Namespaced',
    names: { kind: 'GitopsCluster', plural: 'gitopsclusters', singular: 'gitopscluster', listKind: 'GitopsClusterList' },
    versions: [
      {
        name: 'v1alpha1',
        served: true,
        storage: true,
        subresources: { status: {} },
        schema: { openAPIV3Schema: { ...open, properties: { spec: open, status: open } } },
      },
    ],
  },
}
