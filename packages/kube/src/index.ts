// The public surface of the Kubernetes toolkit: everything that other packages may import. Only the parts that a program uses end up in its
// bundle, because no module here has side effects.

export type { AdmissionRequest, AdmissionVerdict } from './admission/admission-review.ts'
export { type AdmissionHandler, type AdmissionServer, startAdmissionServer } from './admission/admission-server.ts'
export { syncWebhookCertificate } from './admission/webhook-certificate-sync.ts'
export { mayHaveChanged, toApplyPayload } from './apply/apply-format.ts'
export {
  type ApplyDeps,
  type ApplyItem,
  type ApplyOutcome,
  buildApplyOutcome,
  type DryRunResult,
  dryRunObject,
  type WriteRules,
} from './apply/apply-object.ts'
export { type ApplyReport, type ApplySetOptions, applyObjects } from './apply/apply-objects.ts'
export { getPhase, groupByPhase } from './apply/apply-order.ts'
export {
  type ApplySet,
  addPlannedMembers,
  applySetId,
  decodeApplySet,
  emptyApplySet,
  ForeignApplySet,
  ID_LABEL,
  keepMembers,
  type Member,
  PART_OF_LABEL,
  type ParentForm,
  parseGroupKind,
} from './apply/applyset.ts'
export {
  type ListMembersOptions,
  listApplySets,
  listMembers,
  type MemberList,
  readApplySet,
  readParents,
  removeApplySet,
  saveApplySet,
  type UnreadableParent,
} from './apply/applyset-store.ts'
export { isCrd, isEstablished, readCrdKind, waitForCrd } from './apply/crd.ts'
export { deleteAndWait, deleteObject, type Target } from './apply/delete-object.ts'
export { classifyFailure, type Failure } from './apply/failure.ts'
export { findFieldOwner, parsePointer, toPointer, withoutPath } from './apply/field-path.ts'
export { findApplyEntry, hasManager } from './apply/managed-fields.ts'
export { contradictsLabels, indexMembers, judgePrune, type KeepReason, type PruneOutcome, pruneObjects } from './apply/prune.ts'
export { findOwnedPaths, releaseFields } from './apply/release-fields.ts'
export { BadKubeconfig, type Impersonation, type KubeConfig, serviceAccountUser } from './auth/kube-config.ts'
export { loadInCluster } from './auth/load-in-cluster.ts'
export { loadKubeconfig, parseForeignKubeconfig } from './auth/load-kubeconfig.ts'
export { fieldsAt, flagAt, isFields, numberAt, rowsAt, textAt, valueAt } from './client/fields.ts'
export { decodeJson, encodeJson } from './client/json.ts'
export type { ApplyOptions, Kube, Patch, WatchEvent } from './client/kube.ts'
export { hasReason, isObjectNotFound, KubeError } from './client/kube-error.ts'
export {
  apiVersionOf,
  controllerOf,
  describeRef,
  type Fields,
  type GroupKind,
  groupKindOf,
  groupKindText,
  groupOf,
  hasLabels,
  identityKey,
  identityOf,
  isTerminating,
  type Kind,
  type KubeObject,
  type ManagedFieldsEntry,
  nameKey,
  type ObjectMeta,
  type ObjectRef,
  type OwnerReference,
  refOf,
  selectorOf,
  versionOf,
} from './client/object.ts'
export { openKube } from './client/open-kube.ts'
export { API_RETRY, NO_RETRY, READ_RETRY, retrying } from './client/retry.ts'
export {
  type Condition,
  type ConditionNews,
  conditionStatus,
  dropCondition,
  findCondition,
  isTrue,
  setCondition,
  timeText,
} from './controller/conditions.ts'
export { type Controller, type Outcome, startController } from './controller/controller.ts'
export { createRecorder, type Recorder } from './controller/event-recorder.ts'
export { type Election, startElection } from './controller/lease.ts'
export { WorkQueue } from './controller/work-queue.ts'
export { judgeHealth } from './health/index.ts'
export { findOwningMember } from './health/owner-chain.ts'
export { judgePod } from './health/pod.ts'
export { type SetStatus, summarizeHealth, toSetStatus } from './health/summary.ts'
export { type HealthContext, unknown, type Verdict } from './health/verdict.ts'
export { type Informer, startInformer } from './watch/informer.ts'
export type { Change } from './watch/informer-cache.ts'
export { LineSplitter, LineTooLong } from './watch/line-splitter.ts'
export { startTail } from './watch/watch-from-now.ts'
