// Shipwright's two kinds, as far as an agent sees them, and a controller that plays build runs: it ends each of them as its Build
// says. Only where no real one can be had.
import type { TestCluster } from './servers/kube.ts'
import { waitFor } from './wait-for.ts'

const crd = (kind: string, plural: string) => ({
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: `${plural}.shipwright.io` },
  spec: {
    group: 'shipwright.io',
    scope: 'Namespaced',
    names: { kind, plural, singular: kind.toLowerCase(), listKind: `${kind}List` },
    versions: [
      {
        name: 'v1beta1',
        served: true,
        storage: true,
        subresources: { status: {} },
        schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
      },
    ],
  },
})

export async function installShipwright({ api }: Pick<TestCluster, 'api'>): Promise<void> {
  for (const body of [crd('Build', 'builds'), crd('BuildRun', 'buildruns')])
    await api('POST', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', { body })
  for (const plural of ['builds', 'buildruns'])
    await waitFor(`${plural} to be served`, async () => (await api('GET', `/apis/shipwright.io/v1beta1/${plural}`)).status === 200)
}

export interface Run {
  readonly metadata: { readonly name: string; readonly uid: string; readonly labels: Record<string, string> }
  readonly spec: { readonly state?: string }
  readonly status?: object
}
export const buildRuns = async ({ api }: Pick<TestCluster, 'api'>, namespace: string): Promise<Run[]> =>
  ((await api('GET', `/apis/shipwright.io/v1beta1/namespaces/${namespace}/buildruns`)).json as { items: Run[] }).items

/** Ends a run, as the controller of a real one would. */
export async function endRun({ api }: Pick<TestCluster, 'api'>, namespace: string, name: string, status: object): Promise<void> {
  await api('PATCH', `/apis/shipwright.io/v1beta1/namespaces/${namespace}/buildruns/${name}/status`, {
    body: { status },
    contentType: 'application/merge-patch+json',
  })
}
