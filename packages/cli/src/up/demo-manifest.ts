// Manifests of the demo: the same application in dev and prod. The marker lets a pipeline change the version.
export const demoPipeline = { namespace: 'default', name: 'hello' } as const

export interface DemoStack {
  readonly stack: string
  readonly environment: 'dev' | 'prod'
  readonly version: string
}

/** prod is one version behind, so that a promotion waits. */
export const demoStacks: readonly DemoStack[] = [
  { stack: 'hello', environment: 'dev', version: '1.1.0' },
  { stack: 'hello-prod', environment: 'prod', version: '1.0.0' },
]

export const buildManifest = ({ stack, environment, version }: DemoStack): string => `apiVersion: v1
kind: Namespace
metadata:
  name: ${stack}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: greeting
  namespace: ${stack}
data:
  text: Hello from Brokkr
---
apiVersion: v1
kind: Service
metadata:
  name: web
  namespace: ${stack}
spec:
  selector: { app: web }
  ports: [{ port: 80, targetPort: 8080 }]
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: ${stack}
spec:
  replicas: 2
  selector:
    matchLabels: { app: web }
  template:
    metadata:
      labels: { app: web }
    spec:
      containers:
        - name: web
          image: example.invalid/hello:${version} # {"$promotion": "${demoPipeline.namespace}:${demoPipeline.name}:${environment}:tag"}
          ports: [{ containerPort: 8080 }]
`

export const buildPipeline = (secretName: string) => ({
  apiVersion: 'pipelines.weave.works/v1alpha1',
  kind: 'Pipeline',
  metadata: { ...demoPipeline },
  spec: {
    appRef: { apiVersion: 'brokkr.io/v1', kind: 'Stack', name: demoPipeline.name },
    environments: demoStacks.map(({ environment, stack }) => ({ name: environment, targets: [{ namespace: stack, stack }] })),
    promotion: { manual: true, strategy: { stack: { mode: 'Marker', secretRef: { name: secretName } } } },
  },
})

/** Try: brokkr templates render greeting --stack hello --set text=Hi. */
export const demoTemplate = {
  name: 'greeting',
  description: 'A ConfigMap with a greeting; part of the demo of brokkr up',
  template_content: `apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name | default(value="greeting") }}
  namespace: default
data:
  text: {{ text | json_encode() }}
`,
  parameters_schema: JSON.stringify({
    type: 'object',
    required: ['text'],
    properties: { name: { type: 'string' }, text: { type: 'string', description: 'What the greeting says' } },
    additionalProperties: false,
  }),
} as const

export const demoWorkOrder = `apiVersion: v1
kind: ConfigMap
metadata:
  name: brokkr-demo-work-order
  namespace: default
data:
  text: Written once by the work order of brokkr up
`
