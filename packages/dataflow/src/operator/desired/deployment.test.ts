import { normalise } from '@brokkr/contract/dataflow/normalise.ts'
import { re2 } from '@brokkr/contract/dataflow/re2.ts'
import { rowsAt, textAt } from '@brokkr/kube/fields.ts'
import { expect, test } from 'vitest'
import { processorDeployment } from './deployment.ts'

const kafka = (topic: string) => ({ type: 'kafka', config: { brokers: ['a:1'], topic } })
const owner = { apiVersion: 'dataflow.dataflow.io/v1', kind: 'DataFlow', metadata: { name: 'orders', namespace: 'shop', uid: 'u' } }

function deploymentOf(more: object = {}) {
  const { flow } = normalise({ source: kafka('a'), sink: kafka('b'), ...more }, { patterns: re2 })
  return processorDeployment(owner, flow!, { specHash: 'h', image: 'registry:5000/brokkr:1.0', replicas: 1 })
}
const containerOf = (more?: object) => rowsAt(deploymentOf(more), 'spec', 'template', 'spec', 'containers')[0]

test('a processor is told its spec, its flow and how large its heap may be', () => {
  expect(containerOf()).toMatchObject({
    command: ['brokkr', 'dataflow', 'processor'],
    args: ['--spec-path=/etc/dataflow/spec.json', '--namespace=shop', '--name=orders'],
  })
  expect(rowsAt(containerOf(), 'env')).toContainEqual({ name: 'NODE_OPTIONS', value: '--max-semi-space-size=8 --max-old-space-size=307' })
  expect(rowsAt(containerOf({ resources: {} }), 'env')).toContainEqual({ name: 'NODE_OPTIONS', value: '--max-semi-space-size=8' })
})

test('a whole image wins over a version, a version over the tag of the standard image', () => {
  const image = (more?: object) => textAt(containerOf(more), 'image')
  expect(image()).toBe('registry:5000/brokkr:1.0')
  expect(image({ processorVersion: '2.0' })).toBe('registry:5000/brokkr:2.0')
  expect(image({ processorVersion: '2.0', processorImage: 'other/image' })).toBe('other/image')
})

test('without a checkpoint a pod has no account and no token', () => {
  const pod = (more?: object) => deploymentOf(more).spec?.['template'] as { spec: Record<string, unknown> }
  expect(pod().spec).toMatchObject({ serviceAccountName: 'dataflow-orders-processor', automountServiceAccountToken: true })
  expect(pod({ checkpointPersistence: false }).spec).toMatchObject({ automountServiceAccountToken: false })
  expect(pod({ checkpointPersistence: false }).spec).not.toHaveProperty('serviceAccountName')
})
