// A client for the tests of this package, closed when the test file ends.
import { afterAll } from 'vitest'
import type { KubeConfig } from '../auth/kube-config.ts'
import { loadKubeconfig } from '../auth/load-kubeconfig.ts'
import type { Kube } from '../client/kube.ts'
import type { KubeObject } from '../client/object.ts'
import { type KubeOptions, openKube } from '../client/open-kube.ts'

export async function openTestKube(cluster: { kubeconfigPath: string }, options: KubeOptions = {}): Promise<Kube> {
  return openClosing(await loadKubeconfig({ path: cluster.kubeconfigPath, env: {} }), options)
}

export function openClosing(config: KubeConfig, options: KubeOptions = {}): Kube {
  const kube = openKube(config, options)
  afterAll(() => kube.close())
  return kube
}

export const configMap = (
  namespace: string,
  name: string,
  data: Record<string, string> = {},
  labels: Record<string, string> = {},
): KubeObject => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name, namespace, labels },
  data,
})

export const CONFIG_MAP = { apiVersion: 'v1', kind: 'ConfigMap' }

/** A definition of a namespaced kind whose spec holds one integer, `size`. */
export const widgetDefinition = (group: string): KubeObject => ({
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: `widgets.${group}` },
  spec: {
    group,
    scope: 'Namespaced',
    names: { kind: 'Widget', plural: 'widgets', singular: 'widget', listKind: 'WidgetList' },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        subresources: { status: {} },
        schema: {
          openAPIV3Schema: {
            type: 'object',
            properties: {
              spec: { type: 'object', properties: { size: { type: 'integer', format: 'int64' } } },
              status: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
            },
          },
        },
      },
    ],
  },
})

export const deployment = (namespace: string, name: string, replicas = 1): KubeObject => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name, namespace },
  spec: {
    replicas,
    selector: { matchLabels: { app: name } },
    template: { metadata: { labels: { app: name } }, spec: { containers: [{ name: 'main', image: 'example.invalid/app:1' }] } },
  },
})
