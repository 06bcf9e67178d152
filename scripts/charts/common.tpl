{{/* Names and labels. */}}
{{- define "brokkr.fullname" -}}
{{- if .Values.nameOverride -}}
{{- .Values.nameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "brokkr.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: {{ .Chart.Name | trimPrefix "brokkr-" }}
{{- end }}

{{- define "brokkr.labels" -}}
{{ include "brokkr.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: brokkr
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "brokkr.metadata" -}}
name: {{ include "brokkr.fullname" . }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "brokkr.labels" . | nindent 2 }}
{{- end }}

{{/* Argument: dict "image" values "root" $. */}}
{{- define "brokkr.image" -}}
{{- $image := .image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* Settings of pods: restricted, spread over nodes. */}}
{{- define "brokkr.pod" -}}
serviceAccountName: {{ include "brokkr.fullname" . }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- if .Values.topologySpread.enabled }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: {{ .Values.topologySpread.topologyKey }}
    whenUnsatisfiable: {{ .Values.topologySpread.whenUnsatisfiable }}
    labelSelector:
      matchLabels:
        {{- include "brokkr.selectorLabels" . | nindent 8 }}
{{- end }}
{{- end }}

{{- define "brokkr.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop:
      - ALL
{{- end }}

{{/* Liveness is the process, readiness what the program waits for. Argument: name of the port. */}}
{{- define "brokkr.probes" -}}
livenessProbe:
  httpGet:
    path: /healthz
    port: {{ . }}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet:
    path: /readyz
    port: {{ . }}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end }}

{{/* A heap of 60 % of the memory limit: the rest is for buffers, code and threads. NODE_OPTIONS in extraEnv wins. */}}
{{- define "brokkr.nodeOptions" -}}
{{- $memory := dig "limits" "memory" "" (.Values.resources | default dict) | toString -}}
{{- $megabytes := 0 -}}
{{- if hasSuffix "Gi" $memory -}}
{{- $megabytes = trimSuffix "Gi" $memory | float64 | mulf 1024 | int -}}
{{- else if hasSuffix "Mi" $memory -}}
{{- $megabytes = trimSuffix "Mi" $memory | float64 | int -}}
{{- end -}}
{{- $isGiven := false -}}
{{- range .Values.extraEnv -}}
{{- if eq (toString .name) "NODE_OPTIONS" -}}{{- $isGiven = true -}}{{- end -}}
{{- end -}}
{{- if and (gt $megabytes 0) (not $isGiven) -}}
- name: NODE_OPTIONS
  value: --max-old-space-size={{ div (mul $megabytes 6) 10 }}
{{- end -}}
{{- end }}

{{/* Secret settings: one file per setting, named as the setting. */}}
{{- define "brokkr.secretName" -}}
{{- .Values.existingSecret | default (include "brokkr.fullname" .) -}}
{{- end }}

{{- define "brokkr.secretKeys" -}}
{{- if and .Values.existingSecret .Values.secretValues -}}
{{- fail "set existingSecret or secretValues, not both" -}}
{{- end -}}
{{- if .Values.existingSecret -}}
{{- dict "keys" .Values.secretKeys | toJson -}}
{{- else -}}
{{- dict "keys" (keys .Values.secretValues | sortAlpha) | toJson -}}
{{- end -}}
{{- end }}

{{- define "brokkr.secretEnv" -}}
{{- range (include "brokkr.secretKeys" . | fromJson).keys }}
- name: BROKKR__{{ . | replace "." "__" | upper }}_FILE
  value: /etc/brokkr/secrets/{{ . }}
{{- end }}
{{- end }}

{{- define "brokkr.secretVolume" -}}
{{- with (include "brokkr.secretKeys" . | fromJson).keys }}
- name: secrets
  secret:
    secretName: {{ include "brokkr.secretName" $ }}
    defaultMode: 0440
    items:
      {{- range . }}
      - key: {{ . }}
        path: {{ . }}
      {{- end }}
{{- end }}
{{- end }}

{{- define "brokkr.secretMount" -}}
{{- if (include "brokkr.secretKeys" . | fromJson).keys }}
- name: secrets
  mountPath: /etc/brokkr/secrets
  readOnly: true
{{- end }}
{{- end }}

{{- define "brokkr.secret" -}}
{{- if and .Values.secretValues (not .Values.existingSecret) }}
apiVersion: v1
kind: Secret
metadata:
  {{- include "brokkr.metadata" . | nindent 2 }}
type: Opaque
stringData:
  {{- toYaml .Values.secretValues | nindent 2 }}
{{- end }}
{{- end }}

{{/* Argument: dict "root" $ "config" object. As JSON, so that large numbers keep their digits. */}}
{{- define "brokkr.configMap" -}}
apiVersion: v1
kind: ConfigMap
metadata:
  {{- include "brokkr.metadata" .root | nindent 2 }}
data:
  config.json: |
    {{- .config | toPrettyJson | nindent 4 }}
{{- end }}

{{- define "brokkr.serviceAccount" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "brokkr.metadata" . | nindent 2 }}
  {{- with .Values.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
{{- end }}

{{- define "brokkr.podDisruptionBudget" -}}
{{- if .Values.podDisruptionBudget.enabled }}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "brokkr.metadata" . | nindent 2 }}
spec:
  maxUnavailable: {{ .Values.podDisruptionBudget.maxUnavailable }}
  selector:
    matchLabels:
      {{- include "brokkr.selectorLabels" . | nindent 6 }}
{{- end }}
{{- end }}

{{/* Argument: dict "root" $ "metrics" port "ports" list of service ports. */}}
{{- define "brokkr.networkPolicy" -}}
{{- $policy := .root.Values.networkPolicy }}
{{- if $policy.enabled }}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "brokkr.metadata" .root | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "brokkr.selectorLabels" .root | nindent 6 }}
  policyTypes:
    - Ingress
    - Egress
  ingress:
    - ports:
        - protocol: TCP
          port: {{ .metrics }}
      {{- with $policy.metricsFrom }}
      from:
        {{- toYaml . | nindent 8 }}
        - podSelector:
            matchLabels:
              app.kubernetes.io/instance: {{ $.root.Release.Name }}
              app.kubernetes.io/component: test
      {{- end }}
    {{- with .ports }}
    - ports:
        {{- range . }}
        - protocol: TCP
          port: {{ . }}
        {{- end }}
      {{- with $policy.from }}
      from:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    {{- end }}
  egress:
    - ports:
        - protocol: UDP
          port: 53
        - protocol: TCP
          port: 53
    {{- with $policy.egress }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}
{{- end }}

{{/* Metrics and probes, for scrapes by Service and for `helm test`. Argument: dict "root" $ "port" number. */}}
{{- define "brokkr.metricsService" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ include "brokkr.fullname" .root }}-metrics
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "brokkr.labels" .root | nindent 4 }}
spec:
  ports:
    - name: metrics
      port: {{ .port }}
      targetPort: metrics
  selector:
    {{- include "brokkr.selectorLabels" .root | nindent 4 }}
{{- end }}

{{/* Argument: dict "root" $ "kind" kind "enabled" value: "true" if the object is wanted. */}}
{{- define "brokkr.isServed" -}}
{{- if eq (toString .enabled) "auto" -}}
{{- .root.Capabilities.APIVersions.Has (printf "monitoring.coreos.com/v1/%s" .kind) -}}
{{- else -}}
{{- toString .enabled -}}
{{- end -}}
{{- end }}

{{/* Argument: dict "root" $ "kind" "PodMonitor" or "ServiceMonitor" "values" values. */}}
{{- define "brokkr.monitor" -}}
{{- if eq (include "brokkr.isServed" (dict "root" .root "kind" .kind "enabled" .values.enabled)) "true" }}
apiVersion: monitoring.coreos.com/v1
kind: {{ .kind }}
metadata:
  name: {{ include "brokkr.fullname" .root }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "brokkr.labels" .root | nindent 4 }}
    {{- with .values.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  selector:
    matchLabels:
      {{- include "brokkr.selectorLabels" .root | nindent 6 }}
  {{ if eq .kind "PodMonitor" }}podMetricsEndpoints{{ else }}endpoints{{ end }}:
    - port: metrics
      path: /metrics
      interval: {{ .values.interval }}
{{- end }}
{{- end }}

{{/* Argument: dict "root" $ "port" name of the service port. */}}
{{- define "brokkr.ingress" -}}
{{- $ingress := .root.Values.ingress }}
{{- if $ingress.enabled }}
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  {{- include "brokkr.metadata" .root | nindent 2 }}
  {{- with $ingress.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- with $ingress.className }}
  ingressClassName: {{ . }}
  {{- end }}
  {{- with $ingress.tlsSecret }}
  tls:
    - hosts:
        - {{ $ingress.host }}
      secretName: {{ . }}
  {{- end }}
  rules:
    - host: {{ required "set ingress.host" $ingress.host }}
      http:
        paths:
          - path: /
            pathType: Prefix
            backend:
              service:
                name: {{ include "brokkr.fullname" .root }}
                port:
                  name: {{ .port }}
{{- end }}
{{- end }}

{{/* Bindings. Argument: dict "root" $ "name" name "namespace" namespace of a RoleBinding "kind" kind of the role. */}}
{{- define "brokkr.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ if .namespace }}RoleBinding{{ else }}ClusterRoleBinding{{ end }}
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "brokkr.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind | default (ternary "Role" "ClusterRole" (not (empty .namespace))) }}
  name: {{ .role | default .name }}
subjects:
  - kind: ServiceAccount
    name: {{ include "brokkr.fullname" .root }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}

{{/* Argument: dict "root" $ "name" name "namespace" namespace of a Role "rules" text "labels" dict. */}}
{{- define "brokkr.role" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ if .namespace }}Role{{ else }}ClusterRole{{ end }}
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "brokkr.labels" .root | nindent 4 }}
    {{- with .labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
rules:
  {{- .rules | nindent 2 }}
{{- end }}

{{/* `helm test`: the program is ready. Argument: dict "root" $ "port" number. */}}
{{- define "brokkr.test" -}}
apiVersion: v1
kind: Pod
metadata:
  name: {{ include "brokkr.fullname" .root }}-test
  namespace: {{ .root.Release.Namespace }}
  labels:
    app.kubernetes.io/name: {{ .root.Chart.Name }}
    app.kubernetes.io/instance: {{ .root.Release.Name }}
    app.kubernetes.io/component: test
  annotations:
    helm.sh/hook: test
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    seccompProfile:
      type: RuntimeDefault
  {{- with .root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: test
      image: {{ include "brokkr.image" (dict "image" .root.Values.image "root" .root) }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      command:
        - node
        - --input-type=module
        - -e
        - |
          const url = 'http://{{ include "brokkr.fullname" .root }}-metrics:{{ .port }}/readyz'
          const response = await fetch(url, { signal: AbortSignal.timeout(30000) })
          console.log(url, response.status, await response.text())
          process.exitCode = response.status === 200 ? 0 : 1
      resources:
        requests:
          cpu: 10m
          memory: 32Mi
        limits:
          memory: 128Mi
      {{- include "brokkr.containerSecurity" .root | nindent 6 }}
{{- end }}
