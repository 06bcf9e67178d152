// Admission of DataFlows and DataFlowCrons: the same checks as in a pass, before the object is stored. Pure.
import { printProblem } from '@brokkr/contract/dataflow/fields/problem.ts'
import { re2 } from '@brokkr/contract/dataflow/language/re2.ts'
import { refusalMessage, validate } from '@brokkr/contract/dataflow/spec/validate.ts'
import { type AdmissionHandler, type AdmissionRequest, type AdmissionVerdict, isTerminating, type KubeObject, textAt } from '@brokkr/kube'
import { diffFields } from './passes/merge-patch.ts'

const path = '/validate-dataflow-dataflow-io-v1-'
const warningsMax = 50

export const admissionHandlers: Readonly<Record<string, AdmissionHandler>> = {
  [`${path}dataflow`]: (request) => judgeAdmission(request, 'DataFlow'),
  [`${path}dataflowcron`]: (request) => judgeAdmission(request, 'DataFlowCron'),
}

function judgeAdmission(request: AdmissionRequest, kind: 'DataFlow' | 'DataFlowCron'): AdmissionVerdict {
  const { object, oldObject, operation, namespace, name } = request
  if (operation === 'DELETE' || object === undefined || isTerminating(object)) return { allowed: true }
  const { problems, warnings } = validate({ ...object, kind }, re2)
  const texts = [...warnings.map(printProblem), ...warnImage(object)]
  if (problems.length === 0) return { allowed: true, warnings: texts.slice(0, warningsMax) }
  // A stored object that a newer rule refuses can still get a label or lose its finalizer.
  if (operation === 'UPDATE' && oldObject !== undefined && isSameSpec(oldObject, object))
    return { allowed: true, warnings: [...problems.map(printProblem), ...texts].slice(0, warningsMax) }
  return {
    allowed: false,
    message: refusalMessage({ kind, namespace, name: name === '' ? (object.metadata.generateName ?? '') : name }, problems),
    causes: problems.map((problem) => ({ field: problem.path, message: problem.reason, reason: 'FieldValueInvalid' })),
    warnings: texts.slice(0, warningsMax),
  }
}

const isSameSpec = (before: KubeObject, after: KubeObject): boolean => diffFields(before.spec ?? {}, after.spec ?? {}) === undefined

/** Images of the public project do not contain the program that a pod starts. */
function warnImage(object: KubeObject): string[] {
  const image = textAt(object, 'spec', 'processorImage')
  return image === undefined || image === '' || image.includes('brokkr')
    ? []
    : ['spec.processorImage: the image must contain the program brokkr; images of the public operator cannot run a processor']
}
