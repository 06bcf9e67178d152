// The kind as the API server has to know it, without the rules of its fields: for tests of what happens to objects once they are in.
export const dataFlowDefinition = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'dataflows.dataflow.dataflow.io' },
  spec: {
    group: 'dataflow.dataflow.io',
    scope: 'Namespaced',
    names: { kind: 'DataFlow', plural: 'dataflows', singular: 'dataflow', shortNames: ['df'] },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        subresources: { status: {} },
        schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
      },
    ],
  },
}
