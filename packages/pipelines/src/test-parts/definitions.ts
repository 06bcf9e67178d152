// Minimal definitions of the kinds that pipelines read: Flux, Argo CD, GitopsCluster, and a kind of no known controller.
import { pipelineCrd, promotionCrd } from '@brokkr/contract/pipelines/crds.ts'
import type { KubeObject } from '@brokkr/kube'

const open = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true }

function definition(group: string, version: string, kind: string, plural: string, hasStatus = true): KubeObject {
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: 'Namespaced',
      names: { kind, plural, singular: kind.toLowerCase(), listKind: `${kind}List` },
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          ...(hasStatus ? { subresources: { status: {} } } : {}),
          schema: { openAPIV3Schema: { ...open, properties: { spec: open, status: open } } },
        },
      ],
    },
  }
}

export const appDefinitions = (): KubeObject[] => [
  definition('helm.toolkit.fluxcd.io', 'v2', 'HelmRelease', 'helmreleases'),
  definition('kustomize.toolkit.fluxcd.io', 'v1', 'Kustomization', 'kustomizations'),
  // Argo CD serves the status without a subresource.
  definition('argoproj.io', 'v1alpha1', 'Application', 'applications', false),
  definition('example.com', 'v1', 'Fake', 'fakes'),
]

export const managementDefinitions = (): KubeObject[] => [
  ...appDefinitions(),
  definition('gitops.weave.works', 'v1alpha1', 'GitopsCluster', 'gitopsclusters'),
  pipelineCrd() as unknown as KubeObject,
  promotionCrd() as unknown as KubeObject,
]
